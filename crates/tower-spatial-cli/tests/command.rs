//! The binary, as people call it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tower-spatial"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary starts")
}

/// Killed when a test ends, however it does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn help_names_what_the_demo_can_be_told() {
    let output = output(&["demo", "--help"]);
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        [
            "--serve <ADDR>",
            "--seed <SEED>",
            "--tiles <N>",
            "--report <FILE>"
        ]
        .iter()
        .all(|option| text.contains(option)),
        "{text}"
    );
}

#[test]
fn an_address_that_others_can_reach_is_refused_with_a_reason() {
    let output = output(&["demo", "--serve", "0.0.0.0:0"]);
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("0.0.0.0 is not a loopback address"), "{text}");
}

#[test]
fn serve_prints_urls_that_work() {
    let mut running = Running(
        command(&["demo", "--serve", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts"),
    );
    // Kept to the end: a closed pipe would end the server.
    let mut printed = BufReader::new(running.0.stdout.take().expect("piped")).lines();
    let url = printed
        .by_ref()
        .map_while(Result::ok)
        .find(|line| line.contains("REQUEST=GetCapabilities"))
        .expect("a URL of capabilities");
    let (address, target) = url
        .trim()
        .strip_prefix("http://")
        .and_then(|url| url.split_once('/'))
        .expect("a URL");
    let mut stream = TcpStream::connect(address).expect("a listener");
    write!(
        stream,
        "GET /{target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
    assert!(String::from_utf8_lossy(&answer).contains("<WMS_Capabilities"));
}

#[test]
fn a_reader_who_has_seen_enough_causes_no_panic() {
    let mut running = Running(
        command(&["demo"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts"),
    );
    drop(running.0.stdout.take());
    let status = running.0.wait().expect("it ends");
    let mut errors = String::new();
    running
        .0
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut errors)
        .expect("text");
    assert!(status.success() && errors.is_empty(), "{status}: {errors}");
}
