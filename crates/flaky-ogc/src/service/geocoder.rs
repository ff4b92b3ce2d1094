use http::StatusCode;
use serde_json::json;

use super::wfs::position;
use super::{Reply, State, whole_seconds};
use crate::request::Asked;

impl State {
    pub(super) fn geocode(&self, asked: &Asked) -> Reply {
        let Some(query) = asked.parameter("q").filter(|q| !q.is_empty()) else {
            let error = json!({"error": {"code": 400, "message": "Parameter 'q' missing."}});
            return Reply::status(
                StatusCode::BAD_REQUEST,
                "application/json",
                error.to_string(),
            );
        };
        {
            let mut free = self
                .geocoder_free
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let now = self.clock.now();
            if now < *free {
                let error = json!({"error": "Rate Limited Second"});
                let wait = whole_seconds(self.clock.real(*free - now));
                let refused = Reply::status(
                    StatusCode::TOO_MANY_REQUESTS,
                    "application/json",
                    error.to_string(),
                );
                return Reply {
                    retry_after: Some(wait),
                    ..refused
                };
            }
            *free = now + self.script.geocoder_interval;
        }
        let (latitude, longitude) = position(query, 0);
        let places = json!([{"display_name": query, "lat": format!("{latitude:.6}"), "lon": format!("{longitude:.6}"), "class": "place"}]);
        Reply::good("application/json", places.to_string())
    }
}
