//! Maps.

use tower_spatial::{
    call::Attempts,
    exception::{Disposition, ServiceException, ServiceExceptionError},
    find,
    retry::GaveUp,
};

use crate::{
    client::{Client, is_whole_png, patient, read},
    servers::Servers,
};

pub(crate) const GET_MAP: &str = "SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=roads&STYLES=&CRS=EPSG:4326\
    &BBOX=0,0,10,10&WIDTH=64&HEIGHT=64&FORMAT=image/png";

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_map_arrives_whole_with_one_request() {
    let servers = Servers::start(3).await;
    let answer = Client::new().get(&servers.uri("/ows", GET_MAP)).await;
    let answer = answer.unwrap();
    assert_eq!(answer.headers()["content-type"], "image/png");
    assert!(answer.extensions().get::<Attempts>().is_none());
    assert!(is_whole_png(&read(answer).await.unwrap()));
    assert_eq!(servers.logged().await.len(), 1);
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_layer_or_style_that_does_not_exist_costs_one_request_and_its_code_is_told() {
    let servers = Servers::start(3).await;
    for (wrong, code) in [
        (
            GET_MAP.replace("LAYERS=roads", "LAYERS=rivers"),
            "LayerNotDefined",
        ),
        (
            GET_MAP.replace("STYLES=", "STYLES=night"),
            "StyleNotDefined",
        ),
        (GET_MAP.replace("EPSG:4326", "EPSG:99999"), "InvalidSRS"),
    ] {
        let before = servers.logged().await.len();
        let error = Client::new()
            .get(&servers.uri("/ows", &wrong))
            .await
            .unwrap_err();
        let exception = find::<ServiceException>(&error).unwrap();
        assert_eq!(exception.code(), Some(code));
        assert_eq!(exception.disposition(), Disposition::Permanent);
        assert!(find::<GaveUp>(&error).is_none());
        let logged = servers.logged().await;
        assert_eq!(logged.len(), before + 1, "{code}");
        assert_eq!(logged[before].status, 200);
    }
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_map_whose_source_is_gone_is_asked_for_until_the_source_is_back() {
    let servers = Servers::start(3).await;
    servers.take_source_away();
    let client = Client::new();
    let uri = servers.uri("/ows", GET_MAP);
    let (answer, ()) = tokio::join!(client.get(&uri), async {
        servers.has_logged(3).await;
        servers.bring_source_back();
    });
    let answer = answer.unwrap();
    let attempts = answer.extensions().get::<Attempts>().unwrap().count();
    assert!(is_whole_png(&read(answer).await.unwrap()));
    let logged = servers.logged().await;
    assert_eq!(logged.len(), attempts as usize);
    assert!(attempts >= 4);
    // Nothing but the documents told the failures.
    assert!(logged.iter().all(|request| request.status == 200));
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_source_that_stays_away_ends_with_what_mapserver_said() {
    let servers = Servers::start(3).await;
    servers.take_source_away();
    let client = Client::with(patient().attempts(3));
    let error = client.get(&servers.uri("/ows", GET_MAP)).await.unwrap_err();
    assert_eq!(find::<GaveUp>(&error).unwrap().attempts().len(), 3);
    let last = find::<ServiceExceptionError>(&error).unwrap();
    assert_eq!(last.exception().disposition(), Disposition::Transient);
    assert_eq!(last.exception().code(), None);
    assert!(last.exception().message().contains("roads"));
    assert!(last.head().ends_with(b"</ServiceExceptionReport>\n"));
    assert_eq!(servers.logged().await.len(), 3);
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn capabilities_are_no_exception_although_they_name_exceptions() {
    let servers = Servers::start(3).await;
    for version in ["1.1.1", "1.3.0"] {
        let query = format!("SERVICE=WMS&VERSION={version}&REQUEST=GetCapabilities");
        let answer = Client::new().get(&servers.uri("/ows", &query)).await;
        let text = read(answer.unwrap()).await.unwrap();
        let text = str::from_utf8(&text).unwrap();
        assert!(text.contains("<Exception>"), "{text}");
    }
    assert_eq!(servers.logged().await.len(), 2);
}
