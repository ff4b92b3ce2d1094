//! What happens to the server, in the story's own seconds. The same for all.

use std::ops::Range;
use std::time::Duration;

use flaky_ogc::{Cut, Exception, Fault, Form, Rendering, Script, Tile, Weather};

/// How many real seconds one second of the story takes: for the server, for every client's delays, budgets and timeouts.
/// Only `Retry-After` is in real seconds, since that is what HTTP has: a server in a hurry rounds it up to whole ones.
pub(super) const SCALE: f64 = 1.0 / SECONDS_IN_ONE;

/// Seconds of the story in a real one.
pub(super) const SECONDS_IN_ONE: f64 = 30.0;

/// Workers that fetch tiles, one at a time each.
pub(super) const WORKERS: usize = 100;

/// How long any client waits for one attempt, in story seconds: what the article gives a tile server.
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// A span of the story in real time.
pub(super) fn real(story: Duration) -> Duration {
    story.mul_f64(SCALE)
}

/// The tiles to fetch: forty columns of zoom 12.
pub(super) fn tiles(tiles: u32) -> Vec<Tile> {
    (0..tiles)
        .map(|n| Tile::xyz(12, 2_100 + n % 40, 1_400 + n / 40))
        .collect()
}

/// One thing that goes wrong for a while.
pub(super) struct Trouble {
    pub(super) seconds: Range<u64>,
    pub(super) name: &'static str,
    weather: fn() -> Weather,
}

/// What goes wrong, and when. Faults that no client of the three could notice, such as a body cut with a clean end, are
/// left out: they would measure nothing.
pub(super) const TROUBLES: [Trouble; 7] = [
    Trouble {
        seconds: 20..30,
        name: "503 for everybody",
        weather: || Weather::faults(Fault::status(503)),
    },
    Trouble {
        seconds: 50..75,
        name: "429 with Retry-After",
        weather: || Weather::faults(Fault::status(429).retry_after_window()),
    },
    Trouble {
        seconds: 90..150,
        name: "brown-out: half the cores",
        weather: || Weather::Cores(CORES / 2.0),
    },
    Trouble {
        seconds: 160..185,
        name: "one node in maintenance: HTML under 200",
        weather: || Weather::Faults {
            share: 0.3,
            fault: Fault::html_page(),
        },
    },
    Trouble {
        seconds: 195..220,
        name: "data source gone: exceptions under 200",
        weather: || {
            let text = "msDrawMap(): Image handling error. Failed to draw layer named 'relief'. msPostGISLayerOpen(): Query error. Database connection failed";
            Weather::Faults {
                share: 0.4,
                fault: Fault::exception(Exception::new(Form::Report130, text)),
            }
        },
    },
    Trouble {
        seconds: 225..245,
        name: "connections reset",
        weather: || Weather::Faults {
            share: 0.3,
            fault: Fault::reset(),
        },
    },
    Trouble {
        seconds: 245..255,
        name: "bodies cut",
        weather: || Weather::Faults {
            share: 0.1,
            fault: Fault::delivery().cut_after(500, Cut::Close),
        },
    },
];

/// The script, at `scale`.
pub(super) fn script(seed: u64, scale: f64) -> Script {
    let rendering = Rendering {
        cores: CORES,
        threads: 64,
        queue: 64,
        thrash: 0.02,
        mean: Duration::from_secs(3),
        sigma: 0.8,
    };
    let script = Script::default()
        .seed(seed)
        .scale(scale)
        .rendering(rendering);
    TROUBLES.iter().fold(script, |script, trouble| {
        let seconds =
            Duration::from_secs(trouble.seconds.start)..Duration::from_secs(trouble.seconds.end);
        script.during(seconds, (trouble.weather)())
    })
}

/// When the last trouble is over.
pub(super) const LENGTH: Duration = Duration::from_secs(290);

/// What goes wrong at a time of the story.
pub(super) fn trouble_at(elapsed: Duration) -> Option<&'static str> {
    TROUBLES
        .iter()
        .find(|trouble| trouble.seconds.contains(&elapsed.as_secs()))
        .map(|trouble| trouble.name)
}

/// Cores of the server: what 16 requests at once keep busy.
const CORES: f64 = 16.0;
