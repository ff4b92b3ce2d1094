use std::time::{SystemTime, UNIX_EPOCH};

use load_control::{State, UnknownVersion};
use tokio::time::{Duration, Instant};

use super::Endpoints;

/// What a restart carries over of [`Endpoints`]: for each host its limit, the baseline of its latency, breaker and cooldown.
///
/// Made by [`Endpoints::export`]. With feature `serde` it can be written to a file. It names hosts and endpoints, and
/// nothing else of any request.
///
/// ```
/// use tower_spatial::{BreakerState, CircuitBreakerLayer};
///
/// let before = CircuitBreakerLayer::per_host();
/// before.endpoints().find(&"https://wms.example/".parse()?).open();
/// let state = before.endpoints().export();
///
/// let after = CircuitBreakerLayer::per_host();
/// after.endpoints().import(&state)?;
/// let host = after.endpoints().find(&"https://wms.example/".parse()?);
/// assert_eq!(host.snapshot().breaker, BreakerState::Open { probe_in: None });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EndpointsState {
    /// Seconds since 1970.
    written: f64,
    endpoints: Vec<(String, State)>,
}

impl Endpoints {
    /// What has been learnt about the hosts, for a process that takes over.
    pub fn export(&self) -> EndpointsState {
        let now = Instant::now();
        let endpoints = self.known().into_iter().filter_map(|endpoint| {
            let state = endpoint.gates().read(|control| {
                let learnt = control.export(now.into_std());
                let nothing =
                    load_control::LoadControl::new(endpoint.settings().load(endpoint.parts()));
                (learnt != nothing.export(now.into_std())).then_some(learnt)
            })?;
            Some((endpoint.name().to_owned(), state))
        });
        EndpointsState {
            written: unix_seconds(),
            endpoints: endpoints.collect(),
        }
    }

    /// Goes on from what another process has learnt. To be called when the layers are built, before the first call: a
    /// host with calls on their way keeps what is known of it. What belongs to no endpoint of these is left out, and what
    /// makes no sense too.
    ///
    /// # Errors
    /// Where it was written by a version that knew more or less than this one.
    pub fn import(&self, state: &EndpointsState) -> Result<(), UnknownVersion> {
        let age = unix_seconds() - state.written;
        let age = Duration::try_from_secs_f64(age).unwrap_or_default();
        for (name, state) in &state.endpoints {
            if let Some(endpoint) = self.named(name) {
                let settings = endpoint.settings().load(endpoint.parts());
                endpoint
                    .gates()
                    .import(settings, Instant::now(), state, age)?;
            }
        }
        Ok(())
    }
}

fn unix_seconds() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CircuitBreakerLayer, EndpointSettings};

    fn endpoints() -> Endpoints {
        let endpoints = Endpoints::builder()
            .endpoint("cadastre", ["wms.example"], EndpointSettings::new())
            .build()
            .unwrap();
        CircuitBreakerLayer::new(endpoints.clone());
        endpoints
    }

    fn names(state: &EndpointsState) -> Vec<&str> {
        let mut names: Vec<&str> = state.endpoints.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn only_what_was_learnt_is_carried_over_and_only_to_where_it_belongs() {
        let before = endpoints();
        let find = |of: &Endpoints, uri: &str| of.find(&uri.parse().unwrap());
        for uri in [
            "https://wms.example/",
            "http://[2001:db8::1]/",
            "https://tiles.example/",
        ] {
            find(&before, uri).open();
        }
        find(&before, "https://quiet.example/");
        let state = before.export();
        let expected = ["[2001:db8::1]:80", "cadastre", "tiles.example:443"];
        assert_eq!(names(&state), expected);

        let after = endpoints();
        after.import(&state).unwrap();
        assert_eq!(names(&after.export()), expected);

        let without_the_group = Endpoints::default();
        CircuitBreakerLayer::new(without_the_group.clone());
        without_the_group.import(&state).unwrap();
        assert_eq!(
            names(&without_the_group.export()),
            [expected[0], expected[2]]
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn what_was_written_is_read_again_and_of_what_makes_no_sense_nothing_is_made() {
        let before = endpoints();
        before.find(&"https://wms.example/".parse().unwrap()).open();
        let mut written = serde_json::to_value(before.export()).unwrap();
        let read: EndpointsState = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(names(&read), ["cadastre"]);
        assert_eq!(serde_json::to_value(read).unwrap(), written);

        let state = written["endpoints"][0][1].clone();
        for name in [
            "",
            "?",
            "tiles.example",
            "UPPER.example:80",
            "a@b.example:80",
            "b.example:0x50",
        ] {
            written["endpoints"] = serde_json::json!([[name, state]]);
            let read: EndpointsState = serde_json::from_value(written.clone()).unwrap();
            let after = endpoints();
            after.import(&read).unwrap();
            assert_eq!(names(&after.export()), [""; 0], "{name}");
        }
        written["endpoints"][0][1]["version"] = 99.into();
        written["endpoints"][0][0] = "cadastre".into();
        let read: EndpointsState = serde_json::from_value(written).unwrap();
        let error = endpoints().import(&read).unwrap_err();
        assert_eq!(error.to_string(), "state has version 99, expected 1");
    }
}
