use bytes::Bytes;
use serde_json::json;

/// The shape in which a geospatial server reports that something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// WMS 1.0: root `WMTException`, free text.
    Wmt,
    /// `ServiceExceptionReport` 1.0.0, without namespace.
    Report100,
    /// `ServiceExceptionReport` 1.1.0 with its DTD.
    Report110,
    /// `ServiceExceptionReport` 1.1.1 with its DTD, as WMS 1.1.1 sends it.
    Report111,
    /// `ServiceExceptionReport` 1.2.0 in the namespace `ogc`, as WFS 1.0 and WCS 1.0 send it.
    Report120,
    /// `ServiceExceptionReport` 1.3.0 in the namespace `ogc`, as WMS 1.3.0 sends it.
    Report130,
    /// `ows:ExceptionReport` of OWS Common 1.0, as WFS 1.1 and CSW 2.0.2 send it.
    Ows10,
    /// `ows:ExceptionReport` of OWS Common 1.1, as WFS 2.0 and WPS 1.0 send it.
    Ows11,
    /// `ExceptionReport` of OWS Common 1.1 without a prefix, as tile caches send it.
    Ows11DefaultNamespace,
    /// `ows:ExceptionReport` of OWS Common 2.0, as WCS 2.0 sends it.
    Ows20,
    /// A lone `ServiceException` as the root.
    Bare,
    /// `ServerException` of QGIS Server, without namespace.
    Qgis,
    /// `{"version":…,"exceptions":[…]}`, as GeoServer sends it for `EXCEPTIONS=application/json`.
    OwsJson,
    /// Problem details (RFC 9457), as OGC API services send them.
    Problem,
    /// `{"error":{…}}` under status 200, as ArcGIS REST sends it.
    ArcGis,
    /// An HTML page of a gateway or of MapServer's CGI.
    Html,
    /// Nothing at all.
    Empty,
}

impl Form {
    /// Every form there is.
    pub const ALL: [Self; 17] = [
        Self::Wmt,
        Self::Report100,
        Self::Report110,
        Self::Report111,
        Self::Report120,
        Self::Report130,
        Self::Ows10,
        Self::Ows11,
        Self::Ows11DefaultNamespace,
        Self::Ows20,
        Self::Bare,
        Self::Qgis,
        Self::OwsJson,
        Self::Problem,
        Self::ArcGis,
        Self::Html,
        Self::Empty,
    ];

    /// The media type this form usually travels under.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Report110 | Self::Report111 => "application/vnd.ogc.se_xml; charset=UTF-8",
            Self::Wmt | Self::Report100 | Self::Report120 | Self::Report130 | Self::Bare => {
                "text/xml; charset=UTF-8"
            }
            Self::Ows10 | Self::Ows11 | Self::Ows11DefaultNamespace | Self::Ows20 => {
                "application/xml"
            }
            Self::Qgis => "text/xml; charset=utf-8",
            Self::OwsJson | Self::ArcGis => "application/json",
            Self::Problem => "application/problem+json",
            Self::Html => "text/html",
            Self::Empty => "image/png",
        }
    }
}

/// A report that something went wrong: code, place and text, in one of many [`Form`]s.
///
/// ```
/// use flaky_ogc::{Exception, Form};
///
/// let report = Exception::new(Form::Report130, "Layer 'roads' is unknown").code("LayerNotDefined").locator("layers");
/// let xml = String::from_utf8(report.bytes().to_vec()).unwrap();
/// assert!(xml.contains(r#"<ServiceException code="LayerNotDefined" locator="layers">"#));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    pub(crate) form: Form,
    pub(crate) code: Option<String>,
    pub(crate) locator: Option<String>,
    pub(crate) text: String,
    pub(crate) status: Option<u16>,
}

impl Exception {
    /// A report without a code.
    pub fn new(form: Form, text: impl Into<String>) -> Self {
        Self {
            form,
            code: None,
            locator: None,
            text: text.into(),
            status: None,
        }
    }

    /// With a code, such as `LayerNotDefined`; in [`Form::ArcGis`] and [`Form::Problem`] a number is used as such.
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// With the name of the parameter that is to blame.
    pub fn locator(mut self, locator: impl Into<String>) -> Self {
        self.locator = Some(locator.into());
        self
    }

    /// With a status other than 200.
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// The document.
    pub fn bytes(&self) -> Bytes {
        let text = escape(&self.text);
        let attributes = |code: &str, locator: &str| {
            let attribute = |name: &str, value: &Option<String>| match value {
                Some(value) => format!(" {name}=\"{}\"", escape(value)),
                None => String::new(),
            };
            attribute(code, &self.code) + &attribute(locator, &self.locator)
        };
        let element = || {
            format!(
                "<ServiceException{}>\n{text}\n</ServiceException>",
                attributes("code", "locator")
            )
        };
        let dtd = |version: &str| {
            format!(
                "<?xml version='1.0' encoding=\"UTF-8\" standalone=\"no\" ?>\n<!DOCTYPE ServiceExceptionReport SYSTEM \
                 \"http://schemas.opengis.net/wms/{version}/exception_{}.dtd\">\n<ServiceExceptionReport version=\"{version}\">\n{}\n</ServiceExceptionReport>\n",
                version.replace('.', "_"),
                element()
            )
        };
        let namespaced = |version: &str, schema: &str| {
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ServiceExceptionReport version=\"{version}\" xmlns=\"http://www.opengis.net/ogc\" \
                 xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:schemaLocation=\"http://www.opengis.net/ogc {schema}\">\n{}\n</ServiceExceptionReport>\n",
                element()
            )
        };
        let ows = |prefix: &str, namespace: &str, version: &str| {
            let (colon, declared) = if prefix.is_empty() {
                ("", "xmlns".to_owned())
            } else {
                (":", format!("xmlns:{prefix}"))
            };
            let name = |local: &str| format!("{prefix}{colon}{local}");
            let (report, exception, line) = (
                name("ExceptionReport"),
                name("Exception"),
                name("ExceptionText"),
            );
            // exceptionCode is mandatory in OWS Common: "no code" has a code of its own.
            let code = self.code.as_deref().unwrap_or("NoApplicableCode");
            let locator = self
                .locator
                .as_ref()
                .map(|l| format!(" locator=\"{}\"", escape(l)))
                .unwrap_or_default();
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{report} {declared}=\"{namespace}\" version=\"{version}\" xml:lang=\"en\">\n  \
                 <{exception} exceptionCode=\"{}\"{locator}>\n    <{line}>{text}</{line}>\n  </{exception}>\n</{report}>\n",
                escape(code)
            )
        };
        let number = |fallback: u16| {
            self.code
                .as_deref()
                .and_then(|code| code.parse().ok())
                .unwrap_or(fallback)
        };

        Bytes::from(match self.form {
            Form::Wmt => format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<WMTException version=\"1.0.0\">\n{text}\n</WMTException>\n"
            ),
            Form::Report100 => format!(
                "<?xml version=\"1.0\"?>\n<ServiceExceptionReport version=\"1.0.0\">\n{}\n</ServiceExceptionReport>\n",
                element()
            ),
            Form::Report110 => dtd("1.1.0"),
            Form::Report111 => dtd("1.1.1"),
            Form::Report120 => namespaced(
                "1.2.0",
                "http://schemas.opengis.net/wfs/1.0.0/OGC-exception.xsd",
            ),
            Form::Report130 => namespaced(
                "1.3.0",
                "http://schemas.opengis.net/wms/1.3.0/exceptions_1_3_0.xsd",
            ),
            Form::Ows10 => ows("ows", "http://www.opengis.net/ows", "1.0.0"),
            Form::Ows11 => ows("ows", "http://www.opengis.net/ows/1.1", "2.0.0"),
            Form::Ows11DefaultNamespace => ows("", "http://www.opengis.net/ows/1.1", "1.1.0"),
            Form::Ows20 => ows("ows", "http://www.opengis.net/ows/2.0", "2.0.1"),
            Form::Bare => element(),
            Form::Qgis => format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ServerException>{text}</ServerException>\n"
            ),
            Form::OwsJson => json!({"version": "1.1.0", "exceptions": [{
                "code": self.code.as_deref().unwrap_or("noApplicableCode"),
                "locator": self.locator.as_deref().unwrap_or("noLocator"),
                "text": self.text,
            }]})
            .to_string(),
            Form::Problem => {
                let status = self.status.unwrap_or_else(|| number(500));
                json!({"type": "about:blank", "title": self.code.as_deref().unwrap_or("Error"), "status": status, "detail": self.text}).to_string()
            }
            Form::ArcGis => {
                json!({"error": {"code": number(500), "message": self.text, "details": []}})
                    .to_string()
            }
            Form::Html => format!(
                "<!DOCTYPE html>\n<html>\n<head><title>{0}</title></head>\n<body>\n<center><h1>{0}</h1></center>\n<hr><center>gateway</center>\n</body>\n</html>\n",
                text
            ),
            Form::Empty => String::new(),
        })
    }
}

/// Text as XML or HTML character data or attribute value.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_but_the_empty_one_carries_the_text() {
        for form in Form::ALL {
            let report = Exception::new(form, "connection failed").code("NoApplicableCode");
            let body = String::from_utf8(report.bytes().to_vec()).expect("UTF-8");
            assert_eq!(
                body.contains("connection failed"),
                form != Form::Empty,
                "{form:?}"
            );
        }
    }

    #[test]
    fn text_is_escaped() {
        let body = Exception::new(Form::Bare, "a<b & \"c\"").bytes();
        assert!(
            body.windows(20).any(|w| w == b"a&lt;b &amp; &quot;c"),
            "{body:?}"
        );
    }
}
