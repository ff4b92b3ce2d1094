//! What must hold of a settings file, whatever is in it: YAML, as UTF-8 or not.

use tower_spatial::config::SettingsFile;

pub(crate) fn hold(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // A word that a file does not have by itself, and that only the environment could bring into a message.
    const SECRET: &str = "h\u{fc}nter2-\u{2603}";
    let environment = |name: &str| (name != "NONE").then(|| SECRET.to_owned());
    let shown = match SettingsFile::from_yaml_with(&text, "f", environment) {
        Ok(file) => {
            let endpoints = file.build().expect("what was accepted can be built");
            format!(
                "{file:?} {:?} {:?} {:?}",
                file.effective(),
                file.warnings(),
                endpoints.snapshot()
            )
        }
        Err(error) => {
            assert!(!error.problems().is_empty() && error.problems().len() <= 101);
            for problem in error.problems() {
                assert!(problem.message().len() < 4096, "{problem}");
            }
            error.to_string()
        }
    };
    assert!(!shown.contains(SECRET), "{shown}");
}
