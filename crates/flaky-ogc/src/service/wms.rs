use http::StatusCode;

use super::{Reply, State};
use crate::fault::Kind;
use crate::renderer::NotRendered;
use crate::request::Asked;
use crate::tile::{Tile, blank};
use crate::{Exception, Form};

impl State {
    pub(super) async fn wms(&self, asked: &Asked) -> Reply {
        let version = asked
            .parameter("version")
            .or_else(|| asked.parameter("wmtver"))
            .unwrap_or("1.3.0");
        let result = match asked
            .parameter("request")
            .map(str::to_ascii_lowercase)
            .as_deref()
        {
            Some("getcapabilities" | "capabilities") => Ok(self.wms_capabilities(version)),
            Some("getmap" | "map") => match map(asked, version) {
                Ok(tile) => Ok(self.render_map(asked, &tile).await),
                Err(mistake) => Err(mistake),
            },
            Some("getfeatureinfo" | "feature_info") => {
                map(asked, version).and_then(|tile| feature_info(asked, &tile))
            }
            Some(_) => Err(Mistake::new(
                "OperationNotSupported",
                "request",
                "There is no such operation",
            )),
            None => Err(Mistake::new(
                "MissingParameterValue",
                "request",
                "REQUEST is missing",
            )),
        };
        result.unwrap_or_else(|mistake| self.wms_exception(asked, version, mistake))
    }

    async fn render_map(&self, asked: &Asked, tile: &Tile) -> Reply {
        match self.renderer.render(self.script.cost(asked)).await {
            Ok(render) => Reply {
                render: Some(render),
                ..Reply::good("image/png", tile.png())
            },
            Err(NotRendered::Full) => {
                let page = Exception::new(
                    Form::Html,
                    "Too many requests are waiting, please come more slowly",
                );
                Reply::status(StatusCode::SERVICE_UNAVAILABLE, "text/html", page.bytes())
            }
            // The connection goes with the server: nobody reads this.
            Err(NotRendered::Lost) => {
                Reply::status(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "")
            }
        }
    }

    fn wms_exception(&self, asked: &Asked, version: &str, mistake: Mistake) -> Reply {
        let asked_for = asked
            .parameter("exceptions")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let side = |name| {
            asked
                .parameter(name)
                .and_then(|n| n.parse().ok())
                .filter(|n| (1..=LARGEST).contains(n))
                .unwrap_or(256)
        };
        let form = match (self.script.exceptions, asked_for.as_str()) {
            (Some(form), _) => form,
            (
                None,
                "inimage"
                | "blank"
                | "application/vnd.ogc.se_inimage"
                | "application/vnd.ogc.se_blank",
            ) => {
                // Looks like a map, and nobody can tell.
                return Reply {
                    kind: Kind::Exception,
                    ..Reply::good("image/png", blank(side("width"), side("height")))
                };
            }
            (None, "application/json") => Form::OwsJson,
            (None, _) if version.starts_with("1.0") => Form::Wmt,
            (None, _) if version == "1.1.0" => Form::Report110,
            (None, _) if version.starts_with("1.1") => Form::Report111,
            (None, _) => Form::Report130,
        };
        let mut report = Exception::new(form, mistake.text)
            .code(mistake.code)
            .locator(mistake.locator);
        report.status = self.script.exception_status.then_some(400);
        Reply::exception(&report)
    }

    fn wms_capabilities(&self, version: &str) -> Reply {
        let layers: String = LAYERS
            .iter()
            .map(|name| format!("<Layer queryable=\"1\"><Name>{name}</Name><Title>{name}</Title><CRS>EPSG:3857</CRS><CRS>EPSG:4326</CRS></Layer>"))
            .collect();
        if version.starts_with("1.1") {
            let layers = layers.replace("CRS>", "SRS>");
            return Reply::good(
                "application/vnd.ogc.wms_xml",
                format!(
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<WMT_MS_Capabilities version=\"1.1.1\"><Service><Name>OGC:WMS</Name><Title>flaky-ogc</Title></Service>\
                     <Capability><Request><GetMap><Format>image/png</Format></GetMap></Request><Exception><Format>application/vnd.ogc.se_xml</Format></Exception>\
                     <Layer><Title>all</Title>{layers}</Layer></Capability></WMT_MS_Capabilities>\n"
                ),
            );
        }
        Reply::good(
            "text/xml",
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<WMS_Capabilities version=\"1.3.0\" xmlns=\"http://www.opengis.net/wms\"><Service><Name>WMS</Name><Title>flaky-ogc</Title></Service>\
                 <Capability><Request><GetMap><Format>image/png</Format></GetMap></Request><Exception><Format>XML</Format><Format>INIMAGE</Format><Format>BLANK</Format></Exception>\
                 <Layer><Title>all</Title>{layers}</Layer></Capability></WMS_Capabilities>\n"
            ),
        )
    }
}

/// What is wrong with a request.
pub(super) struct Mistake {
    pub(super) code: &'static str,
    pub(super) locator: &'static str,
    pub(super) text: String,
}

impl Mistake {
    pub(super) fn new(code: &'static str, locator: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            locator,
            text: text.into(),
        }
    }
}

fn map(asked: &Asked, version: &str) -> Result<Tile, Mistake> {
    let required = |name: &'static str| {
        asked.parameter(name).ok_or_else(|| {
            Mistake::new(
                "MissingParameterValue",
                name,
                format!("{} is missing", name.to_uppercase()),
            )
        })
    };
    let layers = required("layers")?;
    if let Some(unknown) = layers.split(',').find(|layer| !LAYERS.contains(layer)) {
        return Err(Mistake::new(
            "LayerNotDefined",
            "layers",
            format!("There is no layer '{unknown}'"),
        ));
    }
    if let Some(unknown) = asked
        .parameter("styles")
        .unwrap_or_default()
        .split(',')
        .find(|style| !["", "default"].contains(style))
    {
        return Err(Mistake::new(
            "StyleNotDefined",
            "styles",
            format!("There is no style '{unknown}'"),
        ));
    }
    let (name, code) = if version.starts_with("1.3") {
        ("crs", "InvalidCRS")
    } else {
        ("srs", "InvalidSRS")
    };
    let crs = required(name)?;
    if !["EPSG:3857", "EPSG:4326", "CRS:84"].contains(&crs) {
        return Err(Mistake::new(
            code,
            name,
            format!("The reference system '{crs}' is not supported"),
        ));
    }
    let edges: Option<Vec<f64>> = required("bbox")?
        .split(',')
        .map(|edge| edge.trim().parse().ok())
        .collect();
    let bbox = match edges.as_deref() {
        Some(&[a, b, c, d]) if a < c && b < d => [a, b, c, d],
        _ => {
            return Err(Mistake::new(
                "InvalidParameterValue",
                "bbox",
                "BBOX must be four numbers, minimum before maximum",
            ));
        }
    };
    let side = |name: &'static str| {
        let side = required(name)?
            .parse()
            .ok()
            .filter(|side| (1..=LARGEST).contains(side));
        side.ok_or_else(|| {
            Mistake::new(
                "InvalidParameterValue",
                name,
                format!("{} must be in 1..={LARGEST}", name.to_uppercase()),
            )
        })
    };
    let (width, height) = (side("width")?, side("height")?);
    let format = asked.parameter("format").unwrap_or("image/png");
    if format != "image/png" {
        return Err(Mistake::new(
            "InvalidFormat",
            "format",
            format!("The format '{format}' is not supported"),
        ));
    }
    Ok(Tile {
        layers: layers.to_owned(),
        crs: crs.to_owned(),
        bbox,
        width,
        height,
    })
}

fn feature_info(asked: &Asked, tile: &Tile) -> Result<Reply, Mistake> {
    let position = |names: [&str; 2], side: u32| {
        let at: Option<u32> = names
            .iter()
            .find_map(|name| asked.parameter(name))
            .and_then(|at| at.parse().ok());
        at.filter(|at| *at < side)
            .ok_or_else(|| Mistake::new("InvalidPoint", "i", "The point is not on the map"))
    };
    let (i, j) = (
        position(["i", "x"], tile.width)?,
        position(["j", "y"], tile.height)?,
    );
    let [west, south, east, north] = tile.bbox;
    let x = west + (east - west) * (f64::from(i) + 0.5) / f64::from(tile.width);
    let y = north - (north - south) * (f64::from(j) + 0.5) / f64::from(tile.height);
    let feature = serde_json::json!({"type": "FeatureCollection", "features": [
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": [x, y]}, "properties": {"layer": tile.layers}},
    ]});
    Ok(Reply::good("application/json", feature.to_string()))
}

const LAYERS: [&str; 3] = ["relief", "roads", "labels"];

/// The longest side of a map, in pixels.
const LARGEST: u32 = 4_096;
