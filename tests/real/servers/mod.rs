//! MapServer behind nginx, in a directory of its own, on a free loopback port.

mod access_log;
mod mapserver;
mod nginx;
mod process;

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use http::Uri;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, unix::pipe},
    time::{Instant, sleep},
};

pub(crate) use access_log::Logged;
use mapserver::MapServer;
use nginx::Nginx;

pub(crate) struct Servers {
    nginx: Nginx,
    mapserver: Option<MapServer>,
    // Last: both write into it.
    directory: TempDir,
}

impl Servers {
    /// Both up, with a layer `roads` of `features` roads.
    pub(crate) async fn start(features: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::write(path.join("roads.map"), include_str!("roads.map")).unwrap();
        fs::write(path.join("maintenance.html"), maintenance_page()).unwrap();
        write_roads(&path.join("roads.geojson"), features);
        let mut servers = Self {
            nginx: Nginx::start(path),
            mapserver: Some(MapServer::start(path)),
            directory,
        };
        until("nginx answers", async || {
            servers.nginx.assert_alive();
            servers.request("/ready").await
        })
        .await;
        servers
    }

    /// The address of a map or its features behind one of the locations in `nginx.conf`.
    pub(crate) fn uri(&self, location: &str, query: &str) -> Uri {
        let address = self.nginx.address();
        format!("http://{address}{location}?{query}")
            .parse()
            .unwrap()
    }

    pub(crate) fn stop_mapserver(&mut self) {
        self.mapserver = None;
    }

    pub(crate) fn start_mapserver(&mut self) {
        self.mapserver = Some(MapServer::start(self.directory.path()));
    }

    /// `kill -9`, then a new process that accepts at the same socket, as a process manager does it.
    pub(crate) fn kill_mapserver(&mut self) {
        let mapserver = self.mapserver.as_mut().expect("MapServer is up");
        mapserver.restart(self.directory.path());
    }

    pub(crate) fn take_source_away(&self) {
        fs::rename(self.path("roads.geojson"), self.path("aside")).unwrap();
    }

    pub(crate) fn bring_source_back(&self) {
        fs::rename(self.path("aside"), self.path("roads.geojson")).unwrap();
    }

    /// The source is taken away, and whoever opens it blocks.
    pub(crate) fn block_source(&self) {
        self.take_source_away();
        let fifo = self.path("roads.geojson");
        let made = Command::new(env!("MKFIFO")).arg(fifo).status().unwrap();
        assert!(made.success());
    }

    /// Ready when MapServer has opened the blocked source, and so is in the middle of an answer; it waits for what is
    /// written into the returned end.
    pub(crate) async fn source_is_opened(&self) -> pipe::Sender {
        let fifo = self.path("roads.geojson");
        // Fails where nobody reads (fifo(7)).
        let open = async || pipe::OpenOptions::new().open_sender(&fifo).ok();
        until("MapServer opens its source", open).await
    }

    pub(crate) fn begin_maintenance(&self) {
        fs::write(self.path("maintenance"), "").unwrap();
    }

    pub(crate) fn end_maintenance(&self) {
        fs::remove_file(self.path("maintenance")).unwrap();
    }

    /// Every request whose answer's end has been received, oldest first.
    ///
    /// nginx logs a request in the event that sends the end of its answer, so they are in the log when a later one is.
    pub(crate) async fn logged(&self) -> Vec<Logged> {
        let marks = |log: &[Logged]| log.iter().filter(|request| request.uri == MARK).count();
        let before = marks(&self.log());
        self.request(MARK).await.expect("nginx answers");
        let mut log = until("nginx logs the mark", async || {
            Some(self.log()).filter(|log| marks(log) > before)
        })
        .await;
        log.retain(|request| request.uri != MARK);
        log
    }

    /// Ready when that many requests have ended.
    pub(crate) async fn has_logged(&self, count: usize) {
        until("enough requests are logged", async || {
            (self.log().len() >= count).then_some(())
        })
        .await;
    }

    /// Sends a request on a connection of its own, past every layer.
    async fn request(&self, uri: &str) -> Option<String> {
        let mut connection = TcpStream::connect(self.nginx.address()).await.ok()?;
        let request = format!("GET {uri} HTTP/1.0\r\n\r\n");
        connection.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    }

    fn log(&self) -> Vec<Logged> {
        access_log::read(&self.path("access.log"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Asks again and again until there is something.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Roads across the map, of 1 KB each.
fn write_roads(path: &Path, count: usize) {
    let name = "x".repeat(900);
    let mut roads = String::from(r#"{"type":"FeatureCollection","features":["#);
    for id in 0..count {
        let comma = if id == 0 { "" } else { "," };
        let (from, to) = (id % 10, 10 - id % 10);
        write!(
            roads,
            r#"{comma}{{"type":"Feature","properties":{{"id":{id},"name":"{name}"}},
            "geometry":{{"type":"LineString","coordinates":[[{from},0],[{to},10]]}}}}"#
        )
        .unwrap();
    }
    roads.push_str("]}");
    fs::write(path, roads).unwrap();
}

/// As pages come that have their logo within them: more than a client's connection reads by itself once its body is dropped.
fn maintenance_page() -> String {
    let logo = "A".repeat(40 * 1024);
    format!(
        "<!DOCTYPE html>\n<html><head><title>Maintenance</title></head><body><h1>We will be back soon</h1>\n\
        <p>The map service is down for maintenance.</p>\n<img src=\"data:image/png;base64,{logo}\"></body></html>\n"
    )
}

const MARK: &str = "/mark";

/// Longer than a server takes on a busy machine; reached only where something is broken.
const PATIENCE: Duration = Duration::from_secs(20);
