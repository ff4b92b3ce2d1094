//! The bound nobody reaches: it sees the server, keeps exactly its cores busy, sends exactly the quota, nothing while it is
//! down, waits for no answer, and loses nothing when the clients restart.

use std::task::Waker;

use crate::record::Record;
use crate::scenario::{Phase, Scenario};
use crate::server::Server;

pub(crate) fn run(scenario: &Scenario, seed: u64) -> Record {
    let mut server = Server::new(scenario, seed, 0.0);
    let mut in_flight = Vec::new();
    let mut now = 0.0;
    let mut to_send = scenario.tiles;
    loop {
        in_flight.retain(|id| {
            let answer = server.poll(*id, Waker::noop());
            match answer {
                Some(crate::server::Answer::Tile) => server.record.done.push(now),
                Some(_) => to_send += 1,
                None => return true,
            }
            server.abandon(*id);
            false
        });
        if server.record.done.len() == scenario.tiles {
            server.record.is_complete = true;
            break;
        }
        while to_send > 0 && in_flight.len() < scenario.workers() && may_send(&mut server) {
            in_flight.push(server.arrive());
            to_send -= 1;
        }
        now = server.next_event();
        if now > scenario.horizon {
            break;
        }
        server.advance(now);
    }
    server.record
}

fn may_send(server: &mut Server) -> bool {
    match server.phase() {
        Phase::Unavailable | Phase::Refused => false,
        Phase::Quota if server.quota_is_spent() => false,
        _ => (server.running() as f64) < server.cores().max(1.0).round(),
    }
}
