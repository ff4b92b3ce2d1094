//! A connection survives the failures it carries: another handshake would cost the server more than the failure did.

use std::time::Duration;

use flaky_ogc::{Exception, Fault, Form, Script};

use crate::support::*;

const REQUESTS: u64 = 110;
const FAILING: usize = 100;

async fn connections_used(fault: Fault) -> u64 {
    let server = start(Script::default().first(vec![fault; FAILING])).await;
    // Each of the failures is an attempt of its own call, or a repeat: both ways must keep the connection.
    let stack = stack(Version::Http1, 11, Duration::from_secs(5));
    let mut served = 0;
    while served < REQUESTS - FAILING as u64 {
        if ask(&stack, get_map(&server))
            .await
            .is_ok_and(|bytes| bytes == tile().png())
        {
            served += 1;
        }
    }
    let counts = server.counts();
    assert!(counts.requests >= REQUESTS, "{counts:?}");
    counts.connections
}

#[tokio::test]
async fn a_503_with_a_late_text_keeps_its_connection() {
    let fault = Fault::status(503)
        .body(vec![b'x'; 200])
        .content_type("text/html")
        .late_body(Duration::from_millis(3));
    assert!(connections_used(fault).await <= 2);
}

#[tokio::test]
async fn a_503_with_a_late_image_keeps_its_connection() {
    let image = [b"\x89PNG\r\n\x1a\n".to_vec(), vec![0; 20_000]].concat();
    let fault = Fault::status(503)
        .body(image)
        .content_type("image/png")
        .late_body(Duration::from_millis(30));
    assert!(connections_used(fault).await <= 2);
}

#[tokio::test]
async fn an_exception_in_two_parts_keeps_its_connection() {
    let exception = Exception::new(
        Form::Report130,
        format!("msDrawMap(): connection failed {}", "x".repeat(3_000)),
    );
    let fault = Fault::exception(exception.status(200)).in_parts(2_500, Duration::from_millis(20));
    assert!(connections_used(fault).await <= 2);
}
