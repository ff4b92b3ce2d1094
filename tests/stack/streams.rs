//! Long answers flow, and hold their permit until they end.

use std::time::Duration;

use bytes::Buf;
use flaky_ogc::{Script, large_features_crc32};
use http_body_util::BodyExt;
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_spatial::{ConcurrencyLimitLayer, Endpoints, exception::ServiceExceptionLayer};

use crate::support::*;

const LONG: u64 = 200_000_000;

#[tokio::test]
async fn two_hundred_megabytes_flow_right_after_their_root() {
    for version in [Version::Http1, Version::Http2] {
        let server = start(Script::default()).await;
        let url = format!(
            "{}/wfs?SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=places&size={LONG}",
            server.url()
        );
        let mut body = stack(version, 1, Duration::from_secs(5))
            .oneshot(get(url))
            .await
            .unwrap()
            .into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(
            server.counts().in_flight == 1,
            "the head is handed on while the rest is still to come"
        );
        let (mut crc, mut length) = (flate2::Crc::new(), 0);
        let mut next = Some(first);
        while let Some(data) = next {
            crc.update(&data);
            length += data.remaining() as u64;
            next = body
                .frame()
                .await
                .map(|frame| frame.unwrap().into_data().unwrap());
        }
        assert_eq!(
            (length, crc.sum()),
            (LONG, large_features_crc32(LONG)),
            "{version:?}"
        );
    }
}

#[tokio::test]
async fn a_permit_is_free_when_its_body_ended_or_was_dropped_half_read() {
    for version in [Version::Http1, Version::Http2] {
        let server = start(Script::default()).await;
        let endpoints = Endpoints::default();
        let stack = ServiceBuilder::new()
            .layer(ConcurrencyLimitLayer::new(endpoints.clone()))
            .layer(ServiceExceptionLayer::new())
            .map_err(BoxError::from)
            .service(client(version));
        let in_flight = || {
            endpoints
                .find(&server.url().parse().unwrap())
                .snapshot()
                .in_flight
        };

        let url = format!(
            "{}/wfs?SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=places&size=10000000",
            server.url()
        );
        let mut half = stack.clone().oneshot(get(url)).await.unwrap().into_body();
        half.frame().await.unwrap().unwrap();
        assert_eq!(in_flight(), 1);
        drop(half);
        assert_eq!(in_flight(), 0, "{version:?}");

        let whole = stack.clone().oneshot(get_map(&server)).await.unwrap();
        assert_eq!(in_flight(), 1);
        assert_eq!(bytes(whole).await.unwrap(), tile().png());
        assert_eq!(in_flight(), 0, "{version:?}");
    }
}
