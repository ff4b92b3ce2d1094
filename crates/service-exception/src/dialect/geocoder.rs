use std::time::{Duration, SystemTime};

use super::{Answer, Dialect, Report};
use crate::Disposition::{self, Permanent, Throttled, Transient};
use crate::Protocol;
use crate::form::json::Json;

/// GeoNames.
#[derive(Debug)]
pub(super) struct GeoNames;

impl Dialect for GeoNames {
    fn name(&self) -> &'static str {
        "geonames"
    }

    fn summary(&self) -> &'static str {
        "{\"status\":{\"message\",\"value\"}} and <geonames><status message value/> (GeoNames)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let (value, message) = if let Some(json) = answer.json() {
            let status = json.get("status").filter(|status| status.is_object())?;
            (
                status.get("value")?.as_i64()?,
                status.get("message")?.as_str()?.into_owned(),
            )
        } else {
            let xml = answer.xml()?;
            let root = xml.root().filter(|root| root.local_name() == "geonames")?;
            let status = xml.child(root, &["status"])?;
            (
                status.attribute("value")?.trim().parse().ok()?,
                status.attribute("message").unwrap_or_default(),
            )
        };
        // geonames.org/export/webservice-exception.html
        let disposition = match value {
            12 | 13 | 22 => Transient,
            18..=20 => Throttled,
            // No result, no postal code: the question was answered.
            15..=17 if !answer.has_failed() => return None,
            _ => Permanent,
        };
        Some(
            Report::new(message)
                .with_code(value.to_string())
                .with_disposition(disposition),
        )
    }
}

/// Google Maps and those who copied it.
#[derive(Debug)]
pub(super) struct Google;

impl Dialect for Google {
    fn name(&self) -> &'static str {
        "google-status"
    }

    fn summary(&self) -> &'static str {
        "\"status\": \"OVER_QUERY_LIMIT\" and its kin beside \"results\" (Google Maps, Woosmap), as XML as well"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let (status, message) = if let Some(json) = answer.json() {
            let status = json.get("status").and_then(Json::as_str)?.into_owned();
            let message = ["error_message", "errorMessage", "message"]
                .iter()
                .find_map(|name| json.get(name))
                .and_then(Json::as_str);
            (status, message.unwrap_or_default().into_owned())
        } else {
            let xml = answer.xml()?;
            let root = xml.root().filter(|root| {
                root.local_name().ends_with("Response")
                    || root.local_name() == "WebServiceException"
            })?;
            let status = xml.child(root, &["status"])?.text().trim().to_owned();
            (
                status,
                xml.child(root, &["error_message"])
                    .map(|message| message.text().trim().to_owned())
                    .unwrap_or_default(),
            )
        };
        let disposition = match status.as_str() {
            "OVER_QUERY_LIMIT" if crate::kvp::contains_ignore_case(message.as_bytes(), "daily") => {
                Permanent
            }
            "OVER_QUERY_LIMIT" | "RESOURCE_EXHAUSTED" => Throttled,
            "UNKNOWN_ERROR" | "SERVER_ERROR" | "UNAVAILABLE" => Transient,
            "OVER_DAILY_LIMIT"
            | "REQUEST_DENIED"
            | "INVALID_REQUEST"
            | "NOT_FOUND"
            | "MAX_ROUTE_LENGTH_EXCEEDED"
            | "MAX_WAYPOINTS_EXCEEDED"
            | "MAX_ELEMENTS_EXCEEDED"
            | "MAX_DIMENSIONS_EXCEEDED"
            | "DATA_NOT_AVAILABLE"
            | "PERMISSION_DENIED"
            | "INVALID_ARGUMENT" => Permanent,
            _ => return None,
        };
        Some(
            Report::new(message)
                .with_code(status)
                .with_disposition(disposition),
        )
    }
}

/// Bing Maps: a status within, and a header when it is overloaded.
#[derive(Debug)]
pub(super) struct Bing;

impl Dialect for Bing {
    fn name(&self) -> &'static str {
        "bing-maps"
    }

    fn summary(&self) -> &'static str {
        "\"statusCode\" with \"errorDetails\"; an empty result with the header X-MS-BM-WS-INFO: 1 (Bing Maps)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let json = answer.json()?;
        json.get("resourceSets")
            .or_else(|| json.get("authenticationResultCode"))?;
        let status = json
            .get("statusCode")
            .and_then(Json::as_i64)
            .and_then(|status| u16::try_from(status).ok())
            .unwrap_or(200);
        if status >= 400 {
            let mut words = String::new();
            for name in ["statusDescription", "errorDetails"] {
                if let Some(value) = json.get(name) {
                    value.all_text(3, &mut words);
                }
            }
            let report = Report::new(words).with_status(status);
            return Some(if status == 401 {
                report.with_credentials_wanted()
            } else {
                report
            });
        }
        answer.hints.overloaded.then(|| {
            Report::new("the service is overloaded and left results out")
                .with_disposition(Transient)
        })
    }
}

/// MapQuest.
#[derive(Debug)]
pub(super) struct MapQuest;

impl Dialect for MapQuest {
    fn name(&self) -> &'static str {
        "mapquest"
    }

    fn summary(&self) -> &'static str {
        "\"info\": {\"statuscode\", \"messages\"} other than 0 (MapQuest)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let info = answer.json()?.get("info")?;
        let code = info.get("statuscode")?.as_i64()?;
        if code == 0 {
            return None;
        }
        let mut words = String::new();
        if let Some(messages) = info.get("messages") {
            messages.all_text(3, &mut words);
        }
        let disposition = match code {
            500..=599 => Transient,
            _ if crate::code::of_text(&words) == Some(Throttled) => Throttled,
            429 => Throttled,
            _ => Permanent,
        };
        Some(
            Report::new(words)
                .with_code(code.to_string())
                .with_disposition(disposition),
        )
    }
}

/// Baidu, Tencent and AMap: numbers under `status` or `infocode`.
#[derive(Debug)]
pub(super) struct ChineseMaps;

impl Dialect for ChineseMaps {
    fn name(&self) -> &'static str {
        "chinese-maps"
    }

    fn summary(&self) -> &'static str {
        "\"status\" other than 0 in a geocoder's answer (Baidu, Tencent), \"infocode\" other than 10000 (AMap)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let json = answer.json()?;
        let text = |name: &str| {
            json.get(name)
                .and_then(Json::as_str)
                .map(|text| text.into_owned())
        };
        if let Some(code) = json.get("infocode").and_then(Json::as_i64) {
            let disposition = match code {
                10000 => return None,
                10004 | 10014 | 10015 | 10019 | 10020 | 10021 | 10029 => Throttled,
                10003 | 10010 | 10044 | 10045 => Throttled,
                10016 | 10017 | 20003 | 30001..=30003 => Transient,
                _ => Permanent,
            };
            return Some(
                Report::new(text("info").unwrap_or_default())
                    .with_code(code.to_string())
                    .with_disposition(disposition),
            );
        }
        // `{"status":0,"message":"OK"}` and the like are good answers to other questions (Nominatim's /status).
        if !is_geocoder(answer) || answer.path_contains("/status") {
            return None;
        }
        let status = json
            .get("status")
            .filter(|status| status.0.first().is_some_and(u8::is_ascii_digit))?;
        let code = status.as_i64()?;
        let message = text("message").or_else(|| text("msg"))?;
        let disposition = match code {
            0 | 200 => return None,
            1 => Transient,
            4 | 120 | 121 | 300..=399 | 401 | 402 => Throttled,
            500..=599 => Transient,
            _ => Permanent,
        };
        Some(
            Report::new(message)
                .with_code(code.to_string())
                .with_disposition(disposition),
        )
    }
}

/// OpenCage: a status object, and when the quota begins anew.
#[derive(Debug)]
pub(super) struct OpenCage;

impl Dialect for OpenCage {
    fn name(&self) -> &'static str {
        "opencage"
    }

    fn summary(&self) -> &'static str {
        "\"status\": {\"code\", \"message\"} of 400 and more, with \"rate\": {\"reset\"} (OpenCage); \"meta\" (Pelias, Foursquare)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let json = answer.json()?;
        if let Some(report) = pelias(json, answer) {
            return Some(report);
        }
        let status = json.get("status").filter(|status| status.is_object())?;
        let code = status
            .get("code")?
            .as_i64()
            .and_then(|code| u16::try_from(code).ok())
            .filter(|code| *code >= 400)?;
        let message = status
            .get("message")
            .and_then(Json::as_str)
            .unwrap_or_default();
        let disposition = match code {
            402 | 429 => Throttled,
            408 | 503 | 502 | 504 | 500 => Transient,
            _ => Permanent,
        };
        let report = Report::new(message)
            .with_code(code.to_string())
            .with_disposition(disposition);
        let reset = json
            .get("rate")
            .and_then(|rate| rate.get("reset"))
            .and_then(Json::as_i64)
            .and_then(|reset| u64::try_from(reset).ok());
        Some(
            match reset
                .filter(|_| disposition == Disposition::Throttled)
                .and_then(time)
            {
                Some(time) => report.with_retry_at(time),
                None => report,
            },
        )
    }
}

fn pelias(json: Json<'_>, answer: &Answer<'_>) -> Option<Report> {
    let list = |holder: &str| {
        json.get(holder)
            .and_then(|holder| holder.get("errors"))
            .filter(|errors| !errors.is_empty())
    };
    let errors = list("geocoding").or_else(|| list("meta"))?;
    let has_features = json
        .get("features")
        .is_some_and(|features| !features.is_empty());
    if has_features && !answer.has_failed() {
        return None;
    }
    let mut words = String::new();
    errors.all_text(3, &mut words);
    Some(Report::new(words))
}

/// Seconds since 1970.
fn time(seconds: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn is_geocoder(answer: &Answer<'_>) -> bool {
    answer.asked().operation().protocol() == Protocol::Geocoder
        || ["geocod", "/place/", "/ws/"]
            .iter()
            .any(|part| answer.path_contains(part))
}
