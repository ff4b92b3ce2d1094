//! What a path alone says: REST services and tiles.

use http::Method;

use super::names::Name;
use super::{Expected, Parameters};
use crate::Protocol;

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
    let segments = Segments::of(path);
    let last = segments.last();
    let read = Read {
        expected: extension(last).and_then(by_extension),
        ..Read::default()
    };
    let has = |segment: &str| segments.has(segment);

    if is_arcgis(&segments) {
        return arcgis(&segments, read);
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
    if sensor_things(&segments) {
        let fallback = Some(Expected::Json);
        return Read {
            protocol: Some(Protocol::SensorThings),
            fallback,
            acts: last == "$batch",
            ..read
        };
    }
    if let Some(fallback) = geocoder(&segments, parameters, method) {
        // A batch that is answered at once only reads; one that becomes a job is a POST that is not known.
        let reads = last.eq_ignore_ascii_case("batch")
            || last.starts_with("addressbatch")
            || last.eq_ignore_ascii_case("geocode")
            || has("batch") && last.starts_with("sync");
        return Read {
            protocol: Some(Protocol::Geocoder),
            reads,
            fallback: Some(fallback),
            ..read
        };
    }
    let validates = last.eq_ignore_ascii_case("validation") && segments.starts("v1.");
    if segments.starts("openeo") || validates {
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
    if is_tile(&segments) {
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
    if has("collections") || last.eq_ignore_ascii_case("conformance") || segments.starts("stac") {
        let stac = segments.starts("stac");
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

/// The segments of a path, the last sixteen of them.
struct Segments<'a> {
    all: [&'a str; 16],
    count: usize,
}

impl<'a> Segments<'a> {
    fn of(path: &'a str) -> Self {
        let mut all = [""; 16];
        let mut count = 0;
        for (slot, segment) in all
            .iter_mut()
            .zip(path.rsplit('/').filter(|segment| !segment.is_empty()))
        {
            *slot = segment;
            count += 1;
        }
        all[..count].reverse();
        Self { all, count }
    }

    fn all(&self) -> &[&'a str] {
        &self.all[..self.count]
    }

    fn last(&self) -> &'a str {
        self.all().last().copied().unwrap_or_default()
    }

    fn first_is(&self, wanted: &str) -> bool {
        self.all()
            .first()
            .is_some_and(|first| first.eq_ignore_ascii_case(wanted))
    }

    fn has(&self, wanted: &str) -> bool {
        self.all()
            .iter()
            .any(|segment| segment.eq_ignore_ascii_case(wanted))
    }

    fn has_any(&self, wanted: &[&str]) -> bool {
        wanted.iter().any(|wanted| self.has(wanted))
    }

    fn starts(&self, wanted: &str) -> bool {
        let wanted = wanted.as_bytes();
        let starts = |segment: &&str| {
            segment
                .as_bytes()
                .get(..wanted.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(wanted))
        };
        self.all().iter().any(starts)
    }

    /// Whether these stand one after the other.
    fn has_row(&self, row: &[&str]) -> bool {
        self.all().windows(row.len()).any(|window| {
            window
                .iter()
                .zip(row)
                .all(|(segment, wanted)| segment.eq_ignore_ascii_case(wanted))
        })
    }
}

fn is_arcgis(segments: &Segments<'_>) -> bool {
    segments.has_any(ARCGIS_SERVERS)
        || [
            ["rest", "services"],
            ["arcgis", "rest"],
            ["arcgis", "admin"],
            ["sharing", "rest"],
        ]
        .iter()
        .any(|row| segments.has_row(row))
}

fn arcgis(segments: &Segments<'_>, read: Read) -> Read {
    let protocol = Some(Protocol::ArcGis);
    let last = segments.last();
    let is = |names: &[&'static str]| {
        names
            .iter()
            .copied()
            .find(|name| last.eq_ignore_ascii_case(name))
    };
    let acting = is(ARCGIS_ACTS);
    let reading = is(ARCGIS_READS);
    let acts = acting.is_some()
        || segments.has_any(&["uploads", "submitJob"])
        || segments.has_row(&["arcgis", "admin"]);
    let reads = !acts && (reading.is_some() || segments.has("GeometryServer"));
    let tile = segments.has("tile");
    let by_path = match tile {
        true if segments.has("VectorTileServer") => Some(Expected::VectorTile),
        true => Some(Expected::Image),
        false => None,
    };
    let name = acting.or(reading).or_else(|| tile.then_some("tile"));
    let action = name.map(|name| Name {
        name,
        protocol,
        safe: reads || tile && acting.is_none(),
    });
    Read {
        protocol,
        action,
        reads,
        acts,
        expected: read.expected.or(by_path),
        ..read
    }
}

fn geocoder(
    segments: &Segments<'_>,
    parameters: &Parameters<'_>,
    method: &Method,
) -> Option<Expected> {
    let last = segments.last();
    let ends = |name: &str| last.eq_ignore_ascii_case(name);
    let versioned = ["search", "autosuggest", "discover", "lookup"];
    let known = segments.has_any(&[
        "geocoding",
        "geocode",
        "geocoder",
        "reverse_geocoding",
        "mapbox.places",
        "mapbox.places-permanent",
    ]) || [
        ["api", "geocode"],
        ["api", "place"],
        ["geocode", "v1"],
        ["search", "2"],
        ["v1", "Locations"],
        ["v3", "convert-to"],
    ]
    .iter()
    .any(|row| segments.has_row(row))
        || [
            "searchJSON",
            "geocode",
            "revgeocode",
            "autocomplete",
            "reverse",
            "lookup",
        ]
        .iter()
        .any(|name| ends(name))
        || segments.first_is("v1")
            && segments.all().get(1).is_some_and(|second| {
                versioned
                    .iter()
                    .any(|name| second.eq_ignore_ascii_case(name))
            });
    // GeoNames' /search answers XML, and an old Nominatim's a page, where no format is asked for.
    let asks = (ends("search") || ends("api")) && *method == Method::GET && parameters.question;
    match (known, asks) {
        (true, _) => Some(Expected::Json),
        (false, true) => Some(Expected::Unknown),
        (false, false) => None,
    }
}

fn sensor_things(segments: &Segments<'_>) -> bool {
    segments.has_any(&["v1.0", "v1.1"])
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
        .any(|set| segments.starts(set))
}

/// `…/{z}/{x}/{y}.png`, with or without an ending or `@2x`; ArcGIS-like and WMTS-like orders as well.
fn is_tile(segments: &Segments<'_>) -> bool {
    let number = |segment: &str| {
        !segment.is_empty()
            && segment.len() <= 10
            && segment.bytes().all(|byte| byte.is_ascii_digit())
    };
    let [.., z, x, y] = segments.all() else {
        return false;
    };
    number(z) && number(x) && number(y.split(['.', '@']).next().unwrap_or_default())
}

fn extension(last: &str) -> Option<&str> {
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

const ARCGIS_SERVERS: &[&str] = &[
    "MapServer",
    "FeatureServer",
    "ImageServer",
    "GPServer",
    "GeocodeServer",
    "GeometryServer",
    "VectorTileServer",
    "SceneServer",
    "NAServer",
    "GeoDataServer",
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
