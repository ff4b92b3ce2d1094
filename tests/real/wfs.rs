//! Features.

use tower_spatial::{
    call::Attempts,
    exception::{Disposition, ServiceException},
    find,
};

use crate::{
    client::{Client, read},
    servers::Servers,
};

pub(crate) const GET_FEATURE: &str = "SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=roads";

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn every_feature_arrives_with_one_request() {
    let servers = Servers::start(500).await;
    let answer = Client::new().get(&servers.uri("/ows", GET_FEATURE)).await;
    let document = read(answer.unwrap()).await.unwrap();
    let document = str::from_utf8(&document).unwrap();
    assert_eq!(document.matches("<wfs:member>").count(), 500);
    assert!(document.trim_end().ends_with("</wfs:FeatureCollection>"));
    assert_eq!(servers.logged().await.len(), 1);
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_feature_type_that_does_not_exist_costs_one_request() {
    let servers = Servers::start(3).await;
    let client = Client::new();
    let wrong = GET_FEATURE.replace("=roads", "=rivers");

    let answer = client.get(&servers.uri("/ows", &wrong)).await.unwrap();
    assert_eq!(answer.status(), 400);
    let exception = answer.extensions().get::<ServiceException>().unwrap();
    assert_eq!(exception.code(), Some("InvalidParameterValue"));
    assert_eq!(exception.disposition(), Disposition::Permanent);

    let wrong = wrong.replace("2.0.0", "1.1.0").replace("NAMES", "NAME");
    let error = client.get(&servers.uri("/ows", &wrong)).await.unwrap_err();
    let exception = find::<ServiceException>(&error).unwrap();
    assert_eq!(exception.code(), Some("InvalidParameterValue"));

    let logged = servers.logged().await;
    let statuses: Vec<_> = logged.iter().map(|request| request.status).collect();
    assert_eq!(statuses, [400, 200]);
}

/// MapServer says 400 for it, and NoApplicableCode: only the text tells.
#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn features_whose_source_is_gone_are_asked_for_until_the_source_is_back() {
    let servers = Servers::start(3).await;
    servers.take_source_away();
    let client = Client::new();
    let uri = servers.uri("/ows", GET_FEATURE);
    let (answer, ()) = tokio::join!(client.get(&uri), async {
        servers.has_logged(3).await;
        servers.bring_source_back();
    });
    let answer = answer.unwrap();
    let attempts = answer.extensions().get::<Attempts>().unwrap().count() as usize;
    let document = read(answer).await.unwrap();
    assert!(document.ends_with(b"</wfs:FeatureCollection>\n\n"));
    let logged = servers.logged().await;
    assert_eq!(logged.len(), attempts);
    assert!(attempts >= 4);
    let (last, failed) = logged.split_last().unwrap();
    assert_eq!(last.status, 200);
    assert!(failed.iter().all(|request| request.status == 400));
}
