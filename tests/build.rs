//! Finds the programs that `real/` starts. Where one is missing, those tests are ignored and a warning says so; under
//! CI=true they run, and fail.

use std::{env, path::PathBuf};

fn main() {
    say("rustc-check-cfg=cfg(real_servers)");
    say("rerun-if-changed=build.rs");
    say("rerun-if-env-changed=CI");
    let mut missing = Vec::new();
    for (program, package) in PROGRAMS {
        let path = find(program).unwrap_or_else(|| {
            missing.push(format!("{program} (Debian package {package})"));
            PathBuf::from(format!("/usr/bin/{program}"))
        });
        // A path that does not exist counts as changed, so an installed program is found at the next build.
        say(&format!("rerun-if-changed={}", path.display()));
        let variable = program.to_uppercase();
        say(&format!("rustc-env={variable}={}", path.display()));
    }
    if missing.is_empty() || env::var("CI").is_ok_and(|ci| ci == "true") {
        say("rustc-cfg=real_servers");
    } else {
        say(&format!(
            "warning=missing: {}; the tests against real servers are ignored",
            missing.join(", ")
        ));
    }
}

/// In `PATH`, or where Debian puts servers, which is not in a user's `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

fn say(instruction: &str) {
    println!("cargo::{instruction}");
}

const PROGRAMS: [(&str, &str); 4] = [
    ("mapserv", "cgi-mapserver"),
    ("nginx", "nginx"),
    ("setpriv", "util-linux"),
    ("mkfifo", "coreutils"),
];
