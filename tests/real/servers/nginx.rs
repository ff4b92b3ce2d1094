use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::net::TcpSocket;

use super::process::Process;

pub(super) struct Nginx {
    process: Process,
    /// Bound without listening: the port is nobody else's from before nginx listens until after it has ended.
    _reserved: TcpSocket,
    address: SocketAddr,
    error_log: PathBuf,
}

impl Nginx {
    pub(super) fn start(directory: &Path) -> Self {
        let reserved = TcpSocket::new_v4().unwrap();
        reserved.set_reuseport(true).unwrap();
        reserved.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = reserved.local_addr().unwrap();
        let port = address.port().to_string();
        let settings = include_str!("nginx.conf").replace("PORT", &port);
        fs::write(directory.join("nginx.conf"), settings).unwrap();
        let arguments = ["-p", ".", "-c", "nginx.conf", "-e", "error.log"];
        let process = Process::start(env!("NGINX"), arguments, directory, Stdio::null());
        Self {
            process,
            _reserved: reserved,
            address,
            error_log: directory.join("error.log"),
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn assert_alive(&mut self) {
        if let Some(status) = self.process.ended() {
            let log = fs::read_to_string(&self.error_log).unwrap_or_default();
            panic!("nginx ended with {status}: {log}");
        }
    }
}
