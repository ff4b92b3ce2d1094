use std::{
    fs,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::Path,
    process::Stdio,
};

use super::process::Process;

/// One FastCGI process of MapServer.
pub(super) struct MapServer {
    /// Also held here: what arrives while the process is down waits for the next.
    listener: UnixListener,
    process: Process,
}

impl MapServer {
    pub(super) fn start(directory: &Path) -> Self {
        let socket = directory.join("mapserver.sock");
        // A dead socket stays in the directory, and connections to it are refused.
        let _ = fs::remove_file(&socket);
        fs::write(directory.join("mapserver.conf"), "CONFIG\nEND\n").unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let process = spawn(&listener, directory);
        Self { listener, process }
    }

    pub(super) fn restart(&mut self, directory: &Path) {
        self.process.kill();
        self.process = spawn(&self.listener, directory);
    }
}

/// A FastCGI program accepts at its standard input (FastCGI specification, section 2.2).
fn spawn(listener: &UnixListener, directory: &Path) -> Process {
    let stdin = OwnedFd::from(listener.try_clone().unwrap());
    let arguments = ["-conf", "mapserver.conf"];
    Process::start(env!("MAPSERV"), arguments, directory, Stdio::from(stdin))
}
