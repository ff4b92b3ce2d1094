//! `mistakes/*.yaml`, each with what is said of it in `mistakes/*.txt`. `UPDATE=1` writes the latter anew, to be read.

use std::fs;

use tower_spatial::config::SettingsFile;

use super::{crate_file, environment};

#[test]
fn every_mistake_is_named_with_its_place_and_what_was_expected() {
    let mut files: Vec<_> = fs::read_dir(crate_file("tests/config/mistakes"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    assert!(files.len() >= 40);
    let mut differing = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let error = SettingsFile::from_yaml_with(&text, name, environment).expect_err(name);
        assert!(!error.to_string().contains("hunter2"), "{error}");
        for problem in error.problems() {
            assert!(
                problem.line().is_some() && problem.column().is_some(),
                "{problem}"
            );
        }
        let said = format!("{error}\n");
        let expected = file.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&expected, &said).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default() != said {
            differing.push(said);
        }
    }
    assert!(differing.is_empty(), "{}", differing.concat());
}
