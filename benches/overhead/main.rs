//! What the stack costs a call that succeeds at once, next to its peers.
//!
//! `cargo bench -p benches --bench overhead` measures every series, with `-- --quick` it ends within a minute. It prints
//! one table a series and a list of what must hold, and exits with 1 where something of that does not. A limit that is out
//! of reach so far, or that a noisy machine can exceed, is shown as missed, with the number that is held instead: what is
//! worse than that exits with 1 too. What does not depend on the machine (instructions, allocations, heap) is held as it is.
//!
//! Rows
//! * `bare`: the inner service alone. It is pending once, as any call over a network, then answers with one header and
//!   a body, which is read to its end. The request is a GetMap of 300 bytes with six headers.
//! * `tower`: tower's retry, with a policy that clones the request and counts, concurrency limit and timeout.
//! * `tower-resilience`: its retry, circuit breaker, rate limiter, bulkhead and time limiter.
//! * `ours`: tower's retry with our policy, our limit per host, tower's timeout, our exception layer.
//! * `everything`: all our layers as `SpatialLayer` puts them together, with an adaptive limit and a rate.
//! * `octets`: the image's bytes as `application/octet-stream`, asked for at a path that no protocol knows.
//!
//! Numbers, all of them over the bare row
//! * ns: every round takes one sample of ~0.3 ms of each row, so that what slows the machine meets all rows; the number
//!   is the median of the differences within a round. All rows are made anew every few rounds, at other addresses. ± is
//!   two standard errors, from ten groups of those makings. Where a must is closer to its limit than that, more rounds
//!   follow, up to a bound. Futures are polled by hand on one thread: no scheduler is in it, a system call only in the last table. Ratios
//!   carry over to other machines, nanoseconds do not.
//! * instructions: callgrind, collecting inside the loop over 500 calls only. Repeatable to 0.1 %. Reading the clock is
//!   dearer there than it is in life.
//! * allocations, bytes: of the thread, over 1 000 calls after 1 000 calls. A reallocation counts as an allocation. While
//!   times and instructions are taken the allocator only looks at a flag.
//! * heap a host: live heap after one call to each of 10 000 hosts with names of 35 bytes, by the sizes asked for.
//! * a frame: one of 8 192 frames in the middle of a body.
#![expect(
    clippy::print_stdout,
    reason = "a report on standard output is what this program is for"
)]

mod exchange;
mod instructions;
mod memory;
mod must;
mod series;
mod stacks;
mod timing;

use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use must::Must;
use series::Series;
use timing::Estimate;

fn main() -> ExitCode {
    if cfg!(debug_assertions) {
        println!("an unoptimised build measures nothing worth knowing: use cargo bench");
        return ExitCode::SUCCESS;
    }
    let runtime = runtime_with_an_earlier_timer();
    let _context = runtime.enter();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(place) = arguments
        .iter()
        .position(|argument| argument == instructions::COUNT)
    {
        let name = &arguments[place + 1];
        let mut rows = stacks::main()
            .into_iter()
            .chain(stacks::frames())
            .chain(stacks::fresh())
            .chain(stacks::single());
        instructions::count(
            &mut rows
                .find(|row| row.name == name)
                .expect("a row of this name"),
        );
        return ExitCode::SUCCESS;
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let seconds = |in_quick, in_full| Duration::from_secs(if quick { in_quick } else { in_full });

    let mut main = Series::new("a template request, cloned for each call", stacks::main);
    main.count_allocations();
    main.count_instructions();
    let mut frames = Series::new("a frame of 64 KB", stacks::frames);
    let heap = memory::heap_a_host();
    let bound = Instant::now() + seconds(35, 180);
    main.sample(seconds(8, 40));
    frames.sample(seconds(1, 5));
    let musts = loop {
        let musts = musts(&main, &frames, heap);
        if Instant::now() >= bound || !musts.iter().any(Must::is_close) {
            break musts;
        }
        main.sample(Duration::from_millis(1_800));
        frames.sample(Duration::from_millis(200));
    };
    main.print();
    frames.print();

    let mut fresh = Series::new("a request built from strings for each call", stacks::fresh);
    fresh.count_allocations();
    fresh.sample(seconds(3, 20));
    fresh.print();

    if !quick {
        let mut single = Series::new("layers one by one, a template request", stacks::single);
        single.count_allocations();
        single.count_instructions();
        single.sample(Duration::from_secs(20));
        single.print();

        let runtime = idle_runtime();
        let _context = runtime.enter();
        let mut idle = Series::new(
            "as the first table, but no earlier timer pending",
            stacks::main,
        );
        idle.count_allocations();
        idle.sample(Duration::from_secs(20));
        idle.print();
    }
    println!("\nheap a host {heap:.0} B\n");
    for must in &musts {
        println!("{must}");
    }
    ExitCode::from(u8::from(musts.iter().any(Must::is_broken)))
}

/// What must hold, of what each row adds to its own bare row.
fn musts(main: &Series, frames: &Series, heap: f64) -> [Must; 12] {
    let timing = &main.timing;
    let image_over_octets = timing.more_than("ours", "ours, octets");
    let gml_over_image = timing.more_than("ours, 2 KB GML", "ours, 2 KB image");
    let allocations = main
        .allocations("ours")
        .map(|allocations| Estimate::from(allocations.count));
    let instructions = main.instructions("ours").map(Estimate::from);
    [
        Must::new(
            "ns, times tower's three",
            1.5,
            timing.ratio("ours", "tower"),
        )
        .with_goal(1.2)
        .held_at(2.2),
        Must::new(
            "ns, times tower-resilience's five",
            0.5,
            timing.ratio("ours", "tower-resilience"),
        ),
        Must::new("instructions", 4_200.0, instructions).held_at(4_700.0),
        Must::new("allocations", 3.0, allocations),
        Must::new(
            "ns, an image over a body not inspected",
            15.0,
            image_over_octets,
        )
        .held_at(60.0),
        // 230 to 600 on the same machine, with the state of its caches and its clock.
        Must::new("ns, an XML head over an image", 300.0, gml_over_image).held_at(1_500.0),
        Must::new(
            "ns a frame, all wrappers",
            5.0,
            frames.timing.over_bare("frame ours"),
        )
        .held_at(12.0),
        Must::new("heap a host, bytes", 300.0, Estimate::from(heap)),
        Must::new(
            "everything: ns, times tower's three",
            1.6,
            timing.ratio("everything", "tower"),
        )
        .with_goal(1.3)
        .held_at(9.0),
        Must::new(
            "everything: ns, times tower-resilience's five",
            0.6,
            timing.ratio("everything", "tower-resilience"),
        )
        .with_goal(0.5)
        .held_at(2.5),
        Must::new(
            "everything: allocations",
            8.0,
            main.allocations("everything")
                .map(|allocations| Estimate::from(allocations.count)),
        )
        .with_goal(5.0),
        Must::new(
            "everything: instructions",
            5_500.0,
            main.instructions("everything").map(Estimate::from),
        )
        .with_goal(4_200.0)
        .held_at(18_000.0),
    ]
}

fn idle_runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// A runtime whose driver waits for a timer that is due before any that a row sets, as a busy client's does.
///
/// Without one, each timer that a call sets is the earliest, and tokio wakes its driver for it with a system call.
fn runtime_with_an_earlier_timer() -> Runtime {
    let runtime = idle_runtime();
    runtime.spawn(async { sleep(Duration::from_secs(10)).await });
    runtime.block_on(async { sleep(Duration::from_millis(2)).await });
    runtime
}
