use std::{
    ffi::OsStr,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

/// A child process that ends with this value, or with the thread that started it where the tests themselves are killed.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn start<A: AsRef<OsStr>>(
        program: &str,
        arguments: impl IntoIterator<Item = A>,
        directory: &Path,
        stdin: Stdio,
    ) -> Self {
        assert!(Path::new(program).is_file(), "missing: {program}");
        let child = Command::new(env!("SETPRIV"))
            .args(["--pdeathsig", "KILL", program])
            .args(arguments)
            .current_dir(directory)
            // What a developer has set for a MapServer or GDAL of their own must not reach this one.
            .env_clear()
            .stdin(stdin)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("{program} cannot be started: {error}")))
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
