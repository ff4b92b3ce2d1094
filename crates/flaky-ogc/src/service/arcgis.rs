use serde_json::{Value, json};

use super::wfs::position;
use super::{Reply, State};
use crate::request::Asked;
use crate::{Exception, Form};

impl State {
    /// ArcGIS REST: the query of one layer. Whatever is wrong comes under 200.
    pub(super) fn arcgis(&self, asked: &Asked) -> Reply {
        let error = |code: &str, text: &str| {
            let form = self.script.exceptions.unwrap_or(Form::ArcGis);
            Reply::exception(&Exception::new(form, text).code(code))
        };
        if !asked.path.ends_with("/places/FeatureServer/0/query") {
            return error("404", "Service not found");
        }
        if asked.parameter("where").is_none() {
            return error("400", "Unable to complete operation.");
        }
        let number = |name, fallback| {
            asked
                .parameter(name)
                .map_or(Some(fallback), |text| text.parse::<u64>().ok())
        };
        let (Some(count), Some(start)) = (
            number("resultRecordCount", 1_000),
            number("resultOffset", 0),
        ) else {
            return error("400", "Invalid or missing input parameters.");
        };
        let end = start.saturating_add(count).min(self.script.features);
        let features: Vec<Value> = (start.min(end)..end)
            .map(|index| {
                let (y, x) = position("places", index);
                json!({"attributes": {"OBJECTID": index}, "geometry": {"x": x, "y": y}})
            })
            .collect();
        let more = end < self.script.features;
        Reply::good("application/json", json!({"objectIdFieldName": "OBJECTID", "exceededTransferLimit": more, "features": features}).to_string())
    }
}
