//! One whole answer of each kind, and the request for it.

use flaky_ogc::Tile;

pub(crate) struct Document {
    pub(crate) name: &'static str,
    pub(crate) query: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn all() -> Vec<Document> {
    let document = |name, query, media_type, body: Vec<u8>| Document {
        name,
        query,
        media_type,
        body,
    };
    let members = |member: &str, between: &str| vec![member; 40].join(between);
    let feature = r#"{"type":"Feature","id":"a","geometry":{"type":"Point","coordinates":[7.5,51.25]},"properties":{"name":"Straße"}}"#;
    let gml = format!(
        "<?xml version='1.0' encoding='UTF-8'?>\n<wfs:FeatureCollection xmlns:wfs='http://www.opengis.net/wfs/2.0' \
         numberMatched='40' numberReturned='40'>{}</wfs:FeatureCollection>",
        members(
            "<wfs:member><a:road xmlns:a='urn:a'><a:name>Straße &amp; Weg</a:name></a:road></wfs:member>",
            "\n"
        )
    );
    let geojson = format!(
        r#"{{"type":"FeatureCollection","features":[{}],"numberMatched":40,"numberReturned":40}}"#,
        members(feature, ",\n")
    );
    let csv = format!(
        "FID,name,geometry\r\n{}\r\n",
        members("road.1,\"Straße, Weg\",POINT (7.5 51.25)", "\r\n")
    );
    let capabilities = format!(
        "<?xml version='1.0'?>\n<WMS_Capabilities version='1.3.0' xmlns='http://www.opengis.net/wms'><Service><Name>WMS</Name></Service>\
         <Capability><Exception><Format>XML</Format></Exception><Layer>{}</Layer></Capability></WMS_Capabilities>",
        members(
            "<Layer queryable='1'><Name>roads</Name><Title>Straßen</Title></Layer>",
            ""
        )
    );
    let stac = format!(
        r#"{{"type":"FeatureCollection","numberReturned":40,"features":[{}],"links":[]}}"#,
        members(
            &feature.replacen("\"id\"", "\"stac_version\":\"1.0.0\",\"id\"", 1),
            ","
        )
    );
    let geocoder = format!(
        "[{}]",
        members(
            r#"{"place_id":1,"lat":"52.5","lon":"13.4","display_name":"Köln"}"#,
            ","
        )
    );
    vec![
        document(
            "GetMap PNG",
            "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&FORMAT=image/png",
            "image/png",
            Tile::xyz(4, 3, 2).png(),
        ),
        document(
            "GetMap JPEG",
            "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&FORMAT=image/jpeg",
            "image/jpeg",
            jpeg(),
        ),
        document(
            "GetMap TIFF",
            "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&FORMAT=image/tiff",
            "image/tiff",
            tiff(),
        ),
        document(
            "GetFeature GML",
            "/wfs?SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=a",
            "text/xml",
            gml.into(),
        ),
        document(
            "GetFeature GeoJSON",
            "/wfs?SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=a&OUTPUTFORMAT=application/json",
            "application/json",
            geojson.into(),
        ),
        document(
            "GetFeature CSV",
            "/wfs?SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=a&OUTPUTFORMAT=csv",
            "text/csv",
            csv.into(),
        ),
        document(
            "GetFeature zip",
            "/wfs?SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=a&OUTPUTFORMAT=shape-zip",
            "application/zip",
            zip(),
        ),
        document(
            "GetCapabilities",
            "/wms?SERVICE=WMS&REQUEST=GetCapabilities",
            "text/xml",
            capabilities.into(),
        ),
        document(
            "STAC",
            "/stac/search?collections=a&limit=40",
            "application/geo+json",
            stac.into(),
        ),
        document(
            "geocoder",
            "/search?q=K%C3%B6ln&format=jsonv2",
            "application/json",
            geocoder.into(),
        ),
    ]
}

/// Bytes without a marker in them.
fn noise(length: u32) -> impl Iterator<Item = u8> {
    (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 25) as u8)
}

/// ITU T.81 annex B: SOI, APP0, SOS, entropy-coded data, EOI.
fn jpeg() -> Vec<u8> {
    let mut jpeg = vec![0xFF, 0xD8, 0xFF, 0xE0, 0, 16];
    jpeg.extend(b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    jpeg.extend([0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0]);
    jpeg.extend(noise(3_000));
    jpeg.extend([0xFF, 0xD9]);
    jpeg
}

/// TIFF 6.0: one strip, which ends the file.
fn tiff() -> Vec<u8> {
    const SIDE: u32 = 60;
    let entries: [(u16, u16, u32); 9] = [
        (256, 4, SIDE),
        (257, 4, SIDE),
        (258, 3, 8),
        (259, 3, 1),
        (262, 3, 1),
        (273, 4, 8 + 2 + 9 * 12 + 4),
        (277, 3, 1),
        (278, 4, SIDE),
        (279, 4, SIDE * SIDE),
    ];
    let mut tiff = b"II*\0\x08\0\0\0\x09\0".to_vec();
    for (tag, kind, value) in entries {
        tiff.extend(tag.to_le_bytes());
        tiff.extend(kind.to_le_bytes());
        tiff.extend(1u32.to_le_bytes());
        tiff.extend(value.to_le_bytes());
    }
    tiff.extend([0; 4]);
    tiff.extend(noise(SIDE * SIDE));
    tiff
}

/// APPNOTE 4.3: one stored file, the central directory, its end.
fn zip() -> Vec<u8> {
    let data: Vec<u8> = noise(3_000).collect();
    let mut crc = flate2::Crc::new();
    crc.update(&data);
    let name = b"roads.shp";
    let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0x58];
    common.extend(crc.sum().to_le_bytes());
    common.extend((data.len() as u32).to_le_bytes());
    common.extend((data.len() as u32).to_le_bytes());
    common.extend((name.len() as u16).to_le_bytes());
    common.extend([0, 0]);
    let mut zip = b"PK\x03\x04".to_vec();
    zip.extend(&common);
    zip.extend(name);
    zip.extend(&data);
    let directory = zip.len() as u32;
    zip.extend(b"PK\x01\x02\x14\0");
    zip.extend(&common);
    zip.extend([0; 10]);
    zip.extend(0u32.to_le_bytes());
    zip.extend(name);
    let size = zip.len() as u32 - directory;
    zip.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    zip.extend(size.to_le_bytes());
    zip.extend(directory.to_le_bytes());
    zip.extend([0, 0]);
    zip
}
