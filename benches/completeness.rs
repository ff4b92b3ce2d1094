//! What it costs to check 200 MB of GML on its way from a server that sends 50 MB a second: time, memory, processor time.
//!
//! `cargo bench -p benches --bench completeness`; exits non-zero where a must is missed. `-- --quick` takes a tenth of it.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]

use std::fmt::Debug;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
use tower_spatial::verify::completeness::CompletenessLayer;

const MB: f64 = 1e6;
const PACE: f64 = 50.0 * MB;
const MEMBER: &str = "    <wfs:member>\n      <ms:stations gml:id=\"stations.1\">\n        <ms:msGeometry>\n          <gml:Point srsName=\"urn:ogc:def:crs:EPSG::4326\"><gml:pos>52.370000 4.900000</gml:pos></gml:Point>\n        </ms:msGeometry>\n        <ms:name>Amsterdam</ms:name>\n        <ms:pop>872757</ms:pop>\n        <ms:when>20240101</ms:when>\n      </ms:stations>\n    </wfs:member>\n";

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let megabytes = if quick { 20 } else { 200 };
    let members = megabytes * 1_000_000 / MEMBER.len();
    let address = serve(members);
    let mut missed = false;
    let mut bare = None;
    println!(
        "{megabytes} MB of GML at {:.0} MB/s\n{:<12} {:>8} {:>8} {:>10} {:>14}",
        PACE / MB,
        "",
        "s",
        "x bare",
        "peak MB",
        "CPU ms per MB"
    );
    for (name, most_time, most_memory) in [
        ("bare", f64::INFINITY, f64::INFINITY),
        ("streaming", 1.15, 8.0),
        ("collecting", 1.3, 16.0),
    ] {
        // A run of its own, so that nobody's memory is another's.
        let _ = fs::write("/proc/self/clear_refs", "5");
        let (before, resident) = (processor_time(), memory("VmRSS:"));
        let start = Instant::now();
        let read = run(name, address);
        let seconds = start.elapsed().as_secs_f64();
        assert!(read > megabytes * 999_000, "{name}: {read} bytes");
        let cost = (processor_time() - before) * 1e3 / megabytes as f64;
        let (bare_seconds, bare_cost) = *bare.get_or_insert((seconds, cost));
        let times = seconds / bare_seconds;
        let peak = memory("VmHWM:") - resident;
        let ok = times <= most_time && peak <= most_memory;
        missed |= !ok;
        let must = if most_time.is_finite() {
            format!("   must be <= {most_time} x and <= {most_memory} MB")
        } else {
            String::new()
        };
        println!(
            "{name:<12} {seconds:>8.2} {times:>8.2} {peak:>10.1} {cost:>8.2} ({:+.2}){must}{}",
            cost - bare_cost,
            if ok { "" } else { "   MISSED" }
        );
    }
    ExitCode::from(u8::from(missed))
}

/// Reads the answer to its end; how many bytes it had.
fn run(name: &str, address: SocketAddr) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let client = service_fn(move |request| async move {
        let stream = tokio::net::TcpStream::connect(address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok::<Response<Incoming>, BoxError>(sender.send_request(request).await?)
    });
    let uri = "/wfs?service=WFS&version=2.0.0&request=GetFeature&typeNames=stations";
    let request = Request::get(uri).body(Empty::<Bytes>::new());
    runtime.block_on(async {
        let request = request.expect("a request");
        let layer = match name {
            "bare" => return drain(client.oneshot(request).await).await,
            "streaming" => CompletenessLayer::streaming(),
            _ => CompletenessLayer::new(),
        };
        let service = ServiceBuilder::new().layer(layer).service(client);
        drain(service.oneshot(request).await).await
    })
}

async fn drain<B>(response: Result<Response<B>, BoxError>) -> usize
where
    B: Body<Data = Bytes, Error: Debug> + Unpin,
{
    let mut body = response.expect("an answer").into_body();
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.expect("a whole answer");
        read += frame.data_ref().map_or(0, Bytes::len);
    }
    read
}

/// A WFS that answers everybody with so many members, at its pace.
fn serve(members: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let root = format!(
        "<wfs:FeatureCollection xmlns:wfs=\"http://www.opengis.net/wfs/2.0\" xmlns:gml=\"http://www.opengis.net/gml/3.2\" \
         xmlns:ms=\"urn:ms\" numberMatched=\"unknown\" numberReturned=\"{members}\">\n"
    );
    let end = "</wfs:FeatureCollection>\n";
    let length = root.len() + members * MEMBER.len() + end.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n{root}"
    );
    let batch = 64 * 1024 / MEMBER.len();
    let piece = MEMBER.repeat(batch);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4096]);
            let start = Instant::now();
            stream.write_all(head.as_bytes()).expect("written");
            let mut sent = 0;
            while sent < members {
                let next = batch.min(members - sent);
                let bytes = &piece.as_bytes()[..next * MEMBER.len()];
                stream.write_all(bytes).expect("written");
                sent += next;
                let due = Duration::from_secs_f64((sent * MEMBER.len()) as f64 / PACE);
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
            stream.write_all(end.as_bytes()).expect("written");
        }
    });
    address
}

/// Seconds that all threads of this process have had, the server's too.
fn processor_time() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    // In hundredths, which Linux promises to user space.
    fields
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// Megabytes by a line of the process' status.
fn memory(line: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|text| text.strip_prefix(line));
    let kilobytes = value.and_then(|value| value.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0 / MB
}
