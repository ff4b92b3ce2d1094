//! What a path alone says: REST services and tiles.

use http::Method;

use super::names::Name;
use super::{Expected, Parameters};
use crate::Protocol;
use crate::kvp::contains_ignore_case;

/// What a path says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    pub(super) protocol: Option<Protocol>,
    pub(super) action: Option<Name>,
    /// A POST here only reads.
    pub(super) reads: bool,
    /// Any method here makes the server act.
    pub(super) acts: bool,
    /// By the file name's ending.
    pub(super) expected: Option<Expected>,
    /// Where neither path, parameters nor `Accept` say more.
    pub(super) fallback: Option<Expected>,
}

pub(super) fn read(method: &Method, path: &str, parameters: &Parameters<'_>) -> Read {
    let ending = extension(path);
    let read = Read {
        expected: ending.and_then(by_extension),
        ..Read::default()
    };
    let last = path
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let has = |segment: &str| has_segment(path, segment);

    if is_arcgis(path) {
        return arcgis(path, last, read);
    }
    if last.eq_ignore_ascii_case("interpreter") || path.ends_with("/api/convert") {
        return Read {
            protocol: Some(Protocol::Overpass),
            reads: true,
            ..read
        };
    }
    if has("tms") {
        let expected = read
            .expected
            .or_else(|| last.eq_ignore_ascii_case("1.0.0").then_some(Expected::Xml));
        return Read {
            protocol: Some(Protocol::Tms),
            expected,
            ..read
        };
    }
    if sensor_things(path) {
        let fallback = Some(Expected::Json);
        return Read {
            protocol: Some(Protocol::SensorThings),
            fallback,
            acts: last == "$batch",
            ..read
        };
    }
    if let Some(fallback) = geocoder(path, last, parameters, method) {
        // A batch that is answered at once only reads; one that becomes a job is a POST that is not known.
        let reads = last.eq_ignore_ascii_case("batch")
            || last.starts_with("addressbatch")
            || last.eq_ignore_ascii_case("geocode");
        return Read {
            protocol: Some(Protocol::Geocoder),
            reads,
            fallback: Some(fallback),
            ..read
        };
    }
    if contains_ignore_case(path.as_bytes(), "openeo") {
        let acts = *method == Method::POST && !last.eq_ignore_ascii_case("validation");
        return Read {
            protocol: Some(Protocol::OpenEo),
            reads: last.eq_ignore_ascii_case("validation"),
            acts,
            fallback: Some(Expected::Json),
            ..read
        };
    }
    if last.eq_ignore_ascii_case("search") {
        return Read {
            protocol: Some(Protocol::Stac),
            reads: true,
            fallback: Some(Expected::Json),
            ..read
        };
    }
    if has("wmts") && read.expected.is_some() {
        return Read {
            protocol: Some(Protocol::Wmts),
            ..read
        };
    }
    if is_tile(path) {
        let fallback = Some(Expected::Unknown);
        return Read {
            protocol: Some(if has("collections") || has("tiles") && has("map") {
                Protocol::OgcApi
            } else {
                Protocol::Tiles
            }),
            fallback,
            ..read
        };
    }
    if has("processes") || has("jobs") {
        let acts = last.eq_ignore_ascii_case("execution") || *method == Method::POST;
        let action = last.eq_ignore_ascii_case("execution").then_some(Name {
            name: "Execute",
            protocol: None,
            safe: false,
        });
        let fallback = (!acts && !last.eq_ignore_ascii_case("results") && !has("results"))
            .then_some(Expected::Json);
        return Read {
            protocol: Some(Protocol::OgcApi),
            action,
            acts,
            fallback,
            ..read
        };
    }
    if has("collections") || last.eq_ignore_ascii_case("conformance") || has("stac") {
        let stac = has("stac") || contains_ignore_case(path.as_bytes(), "stac");
        let data = [
            "coverage",
            "map",
            "position",
            "area",
            "cube",
            "radius",
            "trajectory",
            "corridor",
        ];
        let fallback = (!data.iter().any(|segment| has(segment))).then_some(Expected::Json);
        return Read {
            protocol: Some(if stac {
                Protocol::Stac
            } else {
                Protocol::OgcApi
            }),
            fallback,
            ..read
        };
    }
    read
}

fn is_arcgis(path: &str) -> bool {
    let path = path.as_bytes();
    contains_ignore_case(path, "/rest/services")
        || contains_ignore_case(path, "/arcgis/rest")
        || contains_ignore_case(path, "/arcgis/admin")
        || contains_ignore_case(path, "/sharing/rest")
        || ([
            "/MapServer",
            "/FeatureServer",
            "/ImageServer",
            "/GPServer",
            "/GeocodeServer",
            "/GeometryServer",
            "/VectorTileServer",
            "/SceneServer",
            "/NAServer",
        ])
        .iter()
        .any(|kind| contains_ignore_case(path, kind))
}

fn arcgis(path: &str, last: &str, read: Read) -> Read {
    let protocol = Some(Protocol::ArcGis);
    let segment = |name: &str| has_segment(path, name);
    let acts = ARCGIS_ACTS
        .iter()
        .any(|name| last.eq_ignore_ascii_case(name))
        || segment("uploads")
        || segment("submitJob")
        || contains_ignore_case(path.as_bytes(), "/arcgis/admin");
    let name = ARCGIS_READS
        .iter()
        .chain(ARCGIS_ACTS)
        .find(|name| last.eq_ignore_ascii_case(name));
    let reads = !acts
        && (ARCGIS_READS
            .iter()
            .any(|name| last.eq_ignore_ascii_case(name))
            || contains_ignore_case(path.as_bytes(), "/GeometryServer/"));
    let tile = segment("tile");
    let expected = read.expected.or_else(|| match () {
        () if tile && contains_ignore_case(path.as_bytes(), "VectorTileServer") => {
            Some(Expected::VectorTile)
        }
        () if tile => Some(Expected::Image),
        () => None,
    });
    let action = match name {
        Some(&name) => Some(Name {
            name,
            protocol,
            safe: reads,
        }),
        None => tile.then_some(Name {
            name: "tile",
            protocol,
            safe: true,
        }),
    };
    Read {
        protocol,
        action,
        reads,
        acts,
        expected,
        ..read
    }
}

fn geocoder(
    path: &str,
    last: &str,
    parameters: &Parameters<'_>,
    method: &Method,
) -> Option<Expected> {
    let contains = |part: &str| contains_ignore_case(path.as_bytes(), part);
    let ends = |name: &str| last.eq_ignore_ascii_case(name);
    let known = contains("/maps/api/geocode")
        || contains("/maps/api/place")
        || contains("/REST/v1/Locations")
        || contains("/geocoding/v")
        || contains("/geocode/v1")
        || contains("/search/2/")
        || contains("/geocoder/")
        || contains("/mapbox.places")
        || ends("searchJSON")
        || ends("geocode")
        || ends("revgeocode")
        || ends("autocomplete")
        || ends("reverse")
        || ends("lookup")
        || path.starts_with("/v1/search")
        || path.starts_with("/v1/autosuggest")
        || path.starts_with("/v1/discover")
        || path.starts_with("/v3/convert-to")
        || ends("search") && *method == Method::GET && parameters.question
        || ends("api") && parameters.question;
    let geonames_xml = ends("search") && !path.starts_with("/v1");
    // GeoNames' and old Nominatim's /search answer XML or HTML where no format is asked for.
    known.then_some(if geonames_xml {
        Expected::Unknown
    } else {
        Expected::Json
    })
}

fn sensor_things(path: &str) -> bool {
    (has_segment(path, "v1.0") || has_segment(path, "v1.1"))
        && [
            "Things",
            "Datastreams",
            "Observations",
            "Sensors",
            "ObservedProperties",
            "FeaturesOfInterest",
            "HistoricalLocations",
            "Locations",
            "$batch",
        ]
        .iter()
        .any(|set| contains_ignore_case(path.as_bytes(), set))
}

/// `…/{z}/{x}/{y}.png`, with or without an ending or `@2x`; ArcGIS-like and WMTS-like orders as well.
fn is_tile(path: &str) -> bool {
    let mut segments = path.rsplit('/');
    let last = segments.next().unwrap_or_default();
    let last = last.split(['.', '@']).next().unwrap_or_default();
    let number = |segment: &str| {
        !segment.is_empty()
            && segment.len() <= 10
            && segment.bytes().all(|byte| byte.is_ascii_digit())
    };
    number(last) && segments.next().is_some_and(number) && segments.next().is_some_and(number)
}

fn has_segment(path: &str, wanted: &str) -> bool {
    path.split('/')
        .any(|segment| segment.eq_ignore_ascii_case(wanted))
}

fn extension(path: &str) -> Option<&str> {
    let last = path.rsplit('/').next()?;
    let (stem, ending) = last.rsplit_once('.')?;
    (!stem.is_empty() && !ending.is_empty() && ending.len() <= 8).then_some(ending)
}

fn by_extension(ending: &str) -> Option<Expected> {
    ENDINGS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(ending))
        .map(|&(_, kind)| kind)
}

const ENDINGS: &[(&str, Expected)] = &[
    ("png", Expected::Image),
    ("png8", Expected::Image),
    ("jpg", Expected::Image),
    ("jpeg", Expected::Image),
    ("gif", Expected::Image),
    ("webp", Expected::Image),
    ("avif", Expected::Image),
    ("tif", Expected::Image),
    ("tiff", Expected::Image),
    ("jp2", Expected::Image),
    ("pbf", Expected::VectorTile),
    ("mvt", Expected::VectorTile),
    ("json", Expected::Json),
    ("geojson", Expected::Json),
    ("topojson", Expected::Json),
    ("xml", Expected::Xml),
    ("gml", Expected::Xml),
    ("kml", Expected::Xml),
    ("gpx", Expected::Xml),
    ("svg", Expected::Xml),
    ("html", Expected::Html),
    ("htm", Expected::Html),
    ("csv", Expected::Text),
    ("txt", Expected::Text),
    ("zip", Expected::Binary),
    ("kmz", Expected::Binary),
    ("gpkg", Expected::Binary),
    ("shp", Expected::Binary),
    ("nc", Expected::Binary),
    ("grib2", Expected::Binary),
    ("parquet", Expected::Binary),
    ("pmtiles", Expected::Binary),
    ("fgb", Expected::Binary),
    ("laz", Expected::Binary),
    ("las", Expected::Binary),
    ("h5", Expected::Binary),
    ("vrt", Expected::Xml),
];

const ARCGIS_READS: &[&str] = &[
    "query",
    "identify",
    "find",
    "export",
    "exportImage",
    "generateRenderer",
    "queryRelatedRecords",
    "queryAttachments",
    "queryDomains",
    "queryDomain",
    "queryBins",
    "queryTopFeatures",
    "queryAnalytic",
    "queryDateBins",
    "queryLegends",
    "queryContingentValues",
    "validateSQL",
    "legend",
    "info",
    "findAddressCandidates",
    "geocodeAddresses",
    "reverseGeocode",
    "suggest",
    "solve",
    "solveServiceArea",
    "solveClosestFacility",
    "computeHistograms",
    "computeStatisticsHistograms",
    "getSamples",
    "measure",
    "computePixelLocation",
    "keyProperties",
    "rasterAttributeTable",
    "getEstimates",
    "estimateExportTilesSize",
    "relationships",
    "extractChanges",
    "project",
    "simplify",
    "buffer",
    "areasAndLengths",
    "lengths",
    "relation",
    "labelPoints",
    "distance",
    "densify",
    "generalize",
    "convexHull",
    "intersect",
    "difference",
    "union",
    "cut",
    "trimExtend",
    "offset",
    "autoComplete",
    "reshape",
    "toGeoCoordinateString",
    "fromGeoCoordinateString",
    "findTransformations",
];

const ARCGIS_ACTS: &[&str] = &[
    "addFeatures",
    "updateFeatures",
    "deleteFeatures",
    "applyEdits",
    "append",
    "calculate",
    "submitJob",
    "execute",
    "addAttachment",
    "updateAttachment",
    "deleteAttachments",
    "createReplica",
    "synchronizeReplica",
    "unRegisterReplica",
    "truncate",
    "cancel",
    "add",
    "update",
    "delete",
    "register",
    "upload",
    "publish",
    "exportTiles",
    "generateToken",
    "addToDefinition",
    "updateDefinition",
    "deleteFromDefinition",
    "startEditing",
    "stopEditing",
    "startReading",
    "post",
    "reconcile",
];
