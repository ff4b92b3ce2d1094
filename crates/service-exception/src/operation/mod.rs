use std::borrow::Cow;
use std::cell::OnceCell;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, IF_RANGE, RANGE};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri};

use crate::kvp::{self, Decoded, contains_ignore_case};

mod names;
mod path;
mod xml_body;

/// The protocol a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// Web Map Service.
    Wms,
    /// Web Map Tile Service.
    Wmts,
    /// Tile Map Service.
    Tms,
    /// Web Feature Service.
    Wfs,
    /// Web Coverage Service.
    Wcs,
    /// Web Processing Service.
    Wps,
    /// Catalogue Service for the Web.
    Csw,
    /// Sensor Observation Service.
    Sos,
    /// Sensor Planning Service.
    Sps,
    /// OGC SensorThings API.
    SensorThings,
    /// OGC API: Features, Tiles, Maps, Coverages, Records, Processes, EDR and their kin.
    OgcApi,
    /// SpatioTemporal Asset Catalog API.
    Stac,
    /// openEO API.
    OpenEo,
    /// ArcGIS REST services.
    ArcGis,
    /// Overpass API.
    Overpass,
    /// A geocoder: Nominatim, Pelias, Google, Bing and their kin.
    Geocoder,
    /// Tiles by path, `{z}/{x}/{y}`.
    Tiles,
    /// None that is known here.
    Unknown,
}

/// The kind of content that a good answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expected {
    /// A raster image.
    Image,
    /// A vector tile, which may be empty.
    VectorTile,
    /// XML, GML and KML among it.
    Xml,
    /// JSON.
    Json,
    /// A page for people.
    Html,
    /// Text such as CSV.
    Text,
    /// Other data, such as an archive.
    Binary,
    /// Nothing is known of it.
    Unknown,
}

/// What a request asks for: protocol, name, whether it is safe to repeat, and the content a good answer holds.
///
/// ```
/// use http::{HeaderMap, Method, Uri};
/// use service_exception::{Operation, Protocol};
///
/// let uri = Uri::from_static("/ows?SERVICE=WPS&Request=execute&identifier=buffer");
/// let operation = Operation::of(&Method::GET, &uri, &HeaderMap::new(), None);
/// assert_eq!((operation.protocol(), operation.name()), (Protocol::Wps, "Execute"));
/// assert!(!operation.is_safe_to_repeat()); // it starts a process, whatever the method says
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    protocol: Protocol,
    name: Cow<'static, str>,
    expected: Expected,
    safe: bool,
    format: bool,
}

impl Operation {
    /// Reads the operation from a request, and from the head of its body where that is at hand.
    ///
    /// The name stands in the query or form (in any case, percent-encoded or not; where it stands twice, the unsafe
    /// one counts), in the body's XML root, in a SOAP body or `SOAPAction`, or in the path. A POST that is not known is
    /// not safe to repeat; a GET that makes the server act (`Execute`, `Harvest`, `GetFeatureWithLock`) is not either.
    pub fn of(method: &Method, uri: &Uri, headers: &HeaderMap, body_head: Option<&[u8]>) -> Self {
        let bytes = |name| headers.get(name).map_or(&[][..], HeaderValue::as_bytes);
        let content_type = bytes(CONTENT_TYPE);
        let accept = bytes(ACCEPT);
        let soap_action = soap_action(headers, content_type);
        let target = (uri.path(), uri.query().unwrap_or_default());
        let mut operation =
            Self::read(method, target, accept, content_type, soap_action, body_head);
        operation.safe &= !is_overridden(headers);
        operation
    }

    fn read(
        method: &Method,
        (target_path, query): (&str, &str),
        accept: &[u8],
        content_type: &[u8],
        soap_action: Option<names::Name>,
        body_head: Option<&[u8]>,
    ) -> Self {
        let mut parameters = Parameters::default();
        parameters.read(query.as_bytes());
        let mut body = xml_body::Body::default();
        if let Some(head) = body_head {
            let start = head
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace())
                .count();
            if head[start..]
                .first()
                .is_some_and(|&byte| matches!(byte, b'<' | 0xEF | 0xFE | 0xFF | 0))
            {
                body = xml_body::read(head);
            } else if contains_ignore_case(content_type, "x-www-form-urlencoded")
                || content_type.is_empty()
            {
                parameters.read(head);
            }
        }
        if body.name.is_none() {
            body.name = soap_action;
        }

        // What an OGC query names leaves nothing for the path to say but a file's ending.
        let path = match (parameters.service, parameters.request) {
            (Some(_), Some(_)) => path::Read::default(),
            _ => path::read(method, target_path, &parameters),
        };
        let action = parameters.request.or(body.name).or(path.action);
        let protocol = [
            parameters.service,
            body.protocol,
            action.and_then(|known| known.protocol),
            path.protocol,
        ]
        .into_iter()
        .flatten()
        .next()
        .or_else(|| parameters.wmtver.then_some(Protocol::Wms))
        .or_else(|| {
            let is_named = parameters.request.is_some() || parameters.unknown_request.is_some();
            if is_named {
                parameters.by_format()
            } else {
                None
            }
        })
        .unwrap_or(Protocol::Unknown);

        let acts = parameters.unsafe_request
            || path.acts
            || body.name.is_some_and(|name| !name.safe)
            || parameters.store && protocol == Protocol::Wcs;
        let reads = if method == Method::POST {
            let by_body = body.name.is_some_and(|name| name.safe);
            let by_form = parameters.request.is_some_and(|name| name.safe)
                && (matches!(protocol, Protocol::Wms | Protocol::Wmts | Protocol::Tms)
                    || body_head.is_some() && body.root_was_read_or_absent());
            (by_body || by_form || path.reads) && parameters.unknown_request.is_none()
        } else {
            method.is_safe()
                && !parameters
                    .unknown_request
                    .is_some_and(names::sounds_like_a_change)
        };

        let name = match action {
            Some(known) => Cow::Borrowed(known.name),
            None => match parameters.unknown_request.or(body.unknown_name) {
                Some(raw) => {
                    let mut small = [0; 64];
                    Cow::Owned(
                        String::from_utf8_lossy(Decoded(raw).copy_into(&mut small)).into_owned(),
                    )
                }
                None => Cow::Borrowed(""),
            },
        };
        let expected = expected(protocol, action, &parameters, &path, accept, method);
        let format = parameters
            .format
            .or(parameters.output_format)
            .or(parameters.f)
            .or(parameters.info_format)
            .is_some();
        Self {
            protocol,
            name,
            expected,
            safe: reads && !acts,
            format,
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The operation's name as the protocol spells it, such as `GetMap`; empty where unknown.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether sending the request twice has the effect of sending it once.
    pub fn is_safe_to_repeat(&self) -> bool {
        self.safe
    }

    /// Whether the request is known to speak a geospatial protocol.
    pub fn is_geospatial(&self) -> bool {
        self.protocol != Protocol::Unknown
    }

    /// Whether the request names a format, known here or not.
    pub(crate) fn takes_a_format(&self) -> bool {
        self.format
    }

    /// The content a good answer holds.
    pub fn expected(&self) -> Expected {
        self.expected
    }
}

/// A request as far as its answer's meaning depends on it; the [`Operation`] is read when an answer first raises the question.
#[derive(Clone, Debug)]
pub struct Asked {
    method: Method,
    // Half of a URI: host and scheme say nothing of an answer's meaning.
    target: Option<PathAndQuery>,
    accept: Option<HeaderValue>,
    // Boxed: rare.
    range: Option<Box<HeaderValue>>,
    // Boxed: most answers never raise the question, and all carry the place for it.
    operation: OnceCell<Box<Operation>>,
}

impl Asked {
    /// Keeps what is needed of a request: the method, the path and query (a reference count), `Accept` and `Range`.
    pub fn new(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let (mut accept, mut range) = (None, None);
        // One pass: a look-up hashes its name, and two cost more than the few headers that a request has.
        for (name, value) in headers {
            if *name == ACCEPT {
                accept = accept.or(Some(value));
            } else if *name == RANGE {
                range = range.or(Some(value));
            }
        }
        // With If-Range, the whole representation is a right answer (RFC 9110 §13.1.5).
        let range = range.filter(|_| !headers.contains_key(IF_RANGE));
        Self {
            method: method.clone(),
            target: uri.path_and_query().cloned(),
            accept: accept.cloned(),
            range: range.cloned().map(Box::new),
            operation: OnceCell::new(),
        }
    }

    /// Uses an operation that is known already, such as one read with the head of the request's body.
    pub fn with_operation(self, operation: Operation) -> Self {
        Self {
            operation: OnceCell::from(Box::new(operation)),
            ..self
        }
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The path of the URI, `/` where it has none.
    pub fn path(&self) -> &str {
        self.target.as_ref().map_or("/", PathAndQuery::path)
    }

    /// The query of the URI, empty where it has none.
    pub fn query(&self) -> &str {
        let query = self.target.as_ref().and_then(PathAndQuery::query);
        query.unwrap_or_default()
    }

    /// The operation, read at the first call.
    pub fn operation(&self) -> &Operation {
        self.operation.get_or_init(|| {
            let accept = self
                .accept
                .as_ref()
                .map_or(&[][..], |accept| accept.as_bytes());
            Box::new(Operation::read(
                &self.method,
                (self.path(), self.query()),
                accept,
                &[],
                None,
                None,
            ))
        })
    }

    /// The byte range that was asked for, where the answer has to keep to it.
    pub fn range(&self) -> Option<&HeaderValue> {
        self.range.as_deref()
    }
}

/// What a query or form names.
#[derive(Clone, Copy, Debug, Default)]
struct Parameters<'a> {
    service: Option<Protocol>,
    request: Option<names::Name>,
    unsafe_request: bool,
    unknown_request: Option<&'a [u8]>,
    wmtver: bool,
    store: bool,
    format: Option<Decoded<'a>>,
    info_format: Option<Decoded<'a>>,
    output_format: Option<Decoded<'a>>,
    f: Option<Decoded<'a>>,
    data: Option<Decoded<'a>>,
    question: bool,
}

impl<'a> Parameters<'a> {
    fn read(&mut self, text: &'a [u8]) {
        let mut buffer = [0; 16];
        for pair in kvp::pairs(text) {
            let value = pair.value();
            match pair.lower_name(&mut buffer) {
                b"service" => self.service = self.service.or_else(|| names::service(value)),
                b"request" => self.read_request(value),
                b"wmtver" => self.wmtver = true,
                b"store" => self.store |= value.eq_ignore_case("true"),
                b"format" => self.format = Some(value),
                b"info_format" | b"infoformat" => self.info_format = Some(value),
                b"outputformat" => self.output_format = Some(value),
                b"f" => self.f = Some(value),
                b"data" => self.data = Some(value),
                b"q" | b"lat" | b"osm_ids" | b"address" => self.question = true,
                _ => {}
            }
        }
    }

    fn read_request(&mut self, value: Decoded<'a>) {
        match names::by_decoded(value) {
            Some(name) => {
                self.unsafe_request |= !name.safe;
                // Servers differ in which of two counts; the one that acts has to be feared.
                if self
                    .request
                    .is_none_or(|earlier| earlier.safe && !name.safe)
                {
                    self.request = Some(name);
                }
            }
            None if !value.0.is_empty() => {
                self.unknown_request = Some(value.0);
                self.unsafe_request |= names::sounds_like_a_change(value.0);
            }
            None => {}
        }
    }

    /// `REQUEST` without `SERVICE`: WMS 1.0.0 had none.
    fn by_format(&self) -> Option<Protocol> {
        self.format
            .filter(|format| {
                format.contains_ignore_case("image") || format.contains_ignore_case("png")
            })
            .map(|_| Protocol::Wms)
    }
}

/// SOAP 1.1 §6.1.1 `SOAPAction`, SOAP 1.2 part 2 §6.5.3 `action`.
fn soap_action(headers: &HeaderMap, content_type: &[u8]) -> Option<names::Name> {
    let header = headers.get("soapaction").map(HeaderValue::as_bytes);
    let parameter = kvp::find_ignore_case(content_type, "action=")
        .map(|at| &content_type[at + "action=".len()..]);
    let action = header.or(parameter)?;
    let action = action.split(|&byte| byte == b';').next()?;
    let word = action.trim_ascii().trim_ascii_end();
    let word = word.strip_prefix(b"\"").unwrap_or(word);
    let word = word.strip_suffix(b"\"").unwrap_or(word);
    names::by_decoded(Decoded(
        word.rsplit(|byte| matches!(byte, b'/' | b'#' | b':'))
            .next()?,
    ))
}

fn expected(
    protocol: Protocol,
    action: Option<names::Name>,
    parameters: &Parameters<'_>,
    path: &path::Read,
    accept: &[u8],
    method: &Method,
) -> Expected {
    if *method == Method::HEAD {
        return Expected::Unknown;
    }
    let name = action.map_or("", |action| action.name);
    let by =
        |format: Option<Decoded<'_>>| format.filter(|format| !format.0.is_empty()).map(by_format);
    let accept = || by_accept(accept);
    match protocol {
        Protocol::Wms | Protocol::Wmts | Protocol::Tms => match name {
            "GetMap" | "GetTile" | "GetLegendGraphic" => by(parameters.format)
                .or(path.expected)
                .unwrap_or(Expected::Image),
            "GetFeatureInfo" => by(parameters.info_format).unwrap_or(Expected::Unknown),
            "GetCapabilities" => by(parameters.format)
                .filter(|kind| *kind != Expected::Image)
                .unwrap_or(Expected::Xml),
            "DescribeLayer" | "GetStyles" => by(parameters.output_format).unwrap_or(Expected::Xml),
            _ => path.expected.unwrap_or(Expected::Unknown),
        },
        Protocol::Wcs if name == "GetCoverage" => {
            by(parameters.format).unwrap_or(Expected::Unknown)
        }
        Protocol::Wps if name == "Execute" => Expected::Unknown,
        Protocol::Wfs
        | Protocol::Wcs
        | Protocol::Wps
        | Protocol::Csw
        | Protocol::Sos
        | Protocol::Sps => by(parameters.output_format).unwrap_or(if *method == Method::POST {
            Expected::Unknown
        } else {
            Expected::Xml
        }),
        Protocol::ArcGis => by(parameters.f).or(path.expected).unwrap_or(Expected::Html),
        Protocol::Overpass => {
            let out = |form| {
                parameters
                    .data
                    .is_some_and(|data| data.contains_ignore_case(form))
            };
            match () {
                () if out("out:json") => Expected::Json,
                () if out("out:csv") || out("out:custom") || out("out:popup") => Expected::Unknown,
                () if parameters.data.is_some() => Expected::Xml,
                () => Expected::Unknown,
            }
        }
        _ => by(parameters.f)
            .or_else(|| by(parameters.format))
            .or_else(|| by(parameters.output_format))
            .filter(|kind| *kind != Expected::Unknown)
            .or(path.expected)
            .or_else(|| Some(accept()).filter(|kind| *kind != Expected::Unknown))
            .or(path.fallback)
            .unwrap_or(Expected::Unknown),
    }
}

/// A format parameter: a media type or a server's short name.
fn by_format(format: Decoded<'_>) -> Expected {
    let common = |names: &[&str]| names.iter().any(|name| format.eq_ignore_case(name));
    if common(&["image/png", "image/jpeg", "png"]) {
        return Expected::Image;
    }
    if common(&[
        "json",
        "geojson",
        "application/json",
        "application/geo+json",
    ]) {
        return Expected::Json;
    }
    let mut small = [0; 96];
    let format = format.copy_into(&mut small);
    let has = |word| contains_ignore_case(format, word);
    match () {
        () if has("svg") || has("kml") || has("gml") => Expected::Xml,
        () if has("kmz")
            || has("zip")
            || has("shape")
            || has("gpkg")
            || has("geopackage")
            || has("netcdf") =>
        {
            Expected::Binary
        }
        () if has("json") || has("utfgrid") => Expected::Json,
        () if has("html") => Expected::Html,
        () if has("vector-tile") || has("mvt") || has("pbf") => Expected::VectorTile,
        () if has("text/plain") || has("csv") || has("text/javascript") => Expected::Text,
        () if has("xml") => Expected::Xml,
        () if has("image")
            || has("png")
            || has("jpeg")
            || has("jpg")
            || has("tif")
            || has("gif")
            || has("webp") =>
        {
            Expected::Image
        }
        () => Expected::Unknown,
    }
}

/// Whether a header asks the server to take the request for one of another method that is not safe.
fn is_overridden(headers: &HeaderMap) -> bool {
    [
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
    ]
    .iter()
    .filter_map(|name| headers.get(*name))
    .any(|method| {
        let safe = ["GET", "HEAD", "OPTIONS", "TRACE"];
        !safe
            .iter()
            .any(|safe| method.as_bytes().eq_ignore_ascii_case(safe.as_bytes()))
    })
}

/// An `Accept` header: HTML where it is named at all, else the first type that is known.
fn by_accept(accept: &[u8]) -> Expected {
    if matches!(accept, b"" | b"*/*") {
        return Expected::Unknown;
    }
    if contains_ignore_case(accept, "text/html")
        || contains_ignore_case(accept, "application/xhtml")
    {
        return Expected::Html;
    }
    accept
        .split(|&byte| byte == b',')
        .map(|media| by_format(Decoded(media)))
        .find(|kind| *kind != Expected::Unknown)
        .unwrap_or(Expected::Unknown)
}

#[cfg(test)]
mod tests;
