//! Allocations of a call and heap of a host, from an allocator that counts for each thread.

use allocation_counter::measure;

use crate::exchange::{Inner, drive, exchange, get_from_host};
use crate::stacks::{Row, per_host_limit};

/// Allocations and bytes allocated by one unit of a row, once warm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocations {
    pub(crate) count: f64,
    pub(crate) bytes: f64,
}

impl Allocations {
    pub(crate) fn of(row: &mut Row) -> Self {
        (row.run)(UNITS);
        let info = measure(|| {
            (row.run)(UNITS);
        });
        Self {
            count: info.count_total as f64 / f64::from(UNITS),
            bytes: info.bytes_total as f64 / f64::from(UNITS),
        }
    }
}

/// Live heap after one call to each of many hosts, a host.
pub(crate) fn heap_a_host() -> f64 {
    let inner = Inner::small();
    let length = inner.length();
    let mut service = per_host_limit(inner);
    let info = measure(|| {
        for host in 0..HOSTS {
            drive(exchange(&mut service, get_from_host(host), length));
        }
    });
    info.bytes_current as f64 / HOSTS as f64
}

const HOSTS: usize = 10_000;

/// Units of one row while allocations are counted.
const UNITS: u32 = 1_000;
