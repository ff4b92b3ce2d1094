use serde_json::json;

use super::wfs::{COLLECTIONS, collection_json};
use super::{Reply, State};
use crate::request::Asked;
use crate::{Exception, Form};

impl State {
    /// OGC API Features: `/collections` and `/collections/{id}/items`, with problem details where something is wrong.
    pub(super) fn collections(&self, asked: &Asked) -> Reply {
        let problem = |code: &str, status: u16, text: &str| {
            let form = self.script.exceptions.unwrap_or(Form::Problem);
            Reply::exception(&Exception::new(form, text).code(code).status(status))
        };
        let parts: Vec<&str> = asked.path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            [_] => {
                let collections: Vec<_> = COLLECTIONS
                    .iter()
                    .map(|id| json!({"id": id, "links": []}))
                    .collect();
                Reply::good(
                    "application/json",
                    json!({"links": [], "collections": collections}).to_string(),
                )
            }
            [_, id, "items"] if COLLECTIONS.contains(id) => {
                let number = |name, fallback| {
                    asked
                        .parameter(name)
                        .map_or(Some(fallback), |text| text.parse::<u64>().ok())
                };
                let (Some(limit), Some(offset)) = (number("limit", 10), number("offset", 0)) else {
                    return problem(
                        "InvalidParameterValue",
                        400,
                        "limit and offset must be whole numbers",
                    );
                };
                let matched = self.script.features;
                let range = offset.min(matched)..offset.saturating_add(limit).min(matched);
                Reply::good(
                    "application/geo+json",
                    collection_json(id, range, matched).to_string(),
                )
            }
            _ => problem("NotFound", 404, "There is no such collection"),
        }
    }
}
