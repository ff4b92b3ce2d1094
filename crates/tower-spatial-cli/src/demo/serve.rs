use std::io::{self, Write};
use std::net::SocketAddr;

use flaky_ogc::{Server, Tile};

use super::script::{LENGTH, TROUBLES, script};

/// Keeps the struggling server up, in real time, until it is interrupted.
pub(super) async fn serve(address: SocketAddr, seed: u64) -> io::Result<()> {
    let server = Server::start_at(address, script(seed, 1.0).repeat(LENGTH))
        .await
        .map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"))
        })?;
    let url = server.url();
    {
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "A struggling map server listens at {url}, HTTP/1.1 and HTTP/2. Ctrl-C ends it.\n"
        )?;
        writeln!(out, "  {url}/wms?{}", Tile::xyz(12, 2_100, 1_400).query())?;
        writeln!(out, "  {url}/wms?SERVICE=WMS&REQUEST=GetCapabilities")?;
        writeln!(
            out,
            "  {url}/wfs?SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=places&COUNT=10"
        )?;
        writeln!(out, "  {url}/collections/places/items?limit=10")?;
        writeln!(
            out,
            "  {url}/arcgis/rest/services/places/FeatureServer/0/query?where=1%3D1&f=json"
        )?;
        writeln!(out, "  {url}/search?q=Bern\n")?;
        writeln!(out, "Every {} s anew:", LENGTH.as_secs())?;
        for trouble in &TROUBLES {
            writeln!(
                out,
                "  {:>3} .. {:>3} s  {}",
                trouble.seconds.start, trouble.seconds.end, trouble.name
            )?;
        }
        out.flush()?;
    }
    tokio::signal::ctrl_c().await?;
    let counts = server.shutdown().await;
    writeln!(
        io::stdout().lock(),
        "\n{} requests over {} connections, {} maps rendered, {} of them in vain",
        counts.requests,
        counts.connections,
        counts.renders_finished,
        counts.renders_wasted
    )
}
