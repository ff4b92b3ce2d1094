use std::error::Error;
use std::fmt;

use super::tree::Place;

/// What is wrong with a settings file: all that could be found, in the order of the file.
///
/// ```
/// use tower_spatial::Endpoints;
///
/// let text = "endpoints:\n  tile_wms:\n    hosts: [wms.example]\n    concurency: 16\n    read_timeout: 60 sec\n";
/// let error = Endpoints::from_yaml(text, "endpoints.yaml").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "endpoints.yaml:4:5: endpoint `tile_wms`: `concurency` is no key here; did you mean `concurrency`?\n\
///      endpoints.yaml:5:19: endpoint `tile_wms`: `read_timeout` is `60 sec`, expected seconds (60) or a time with its \
///      unit (500ms, 60s, 5m, 1h, 7d)",
/// );
/// assert_eq!((error.problems()[0].line(), error.problems()[0].column()), (Some(4), Some(5)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SettingsError {
    pub(super) problems: Vec<Problem>,
}

/// One thing that is wrong with a settings file, or that is suspicious in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Problem {
    pub(super) file: Option<Box<str>>,
    pub(super) place: Place,
    pub(super) message: Box<str>,
}

impl SettingsError {
    pub(super) fn one(file: Option<&str>, place: Place, message: impl Into<Box<str>>) -> Self {
        Self {
            problems: vec![Problem {
                file: file.map(Box::from),
                place,
                message: message.into(),
            }],
        }
    }

    /// All of them; at least one. After a hundred the rest is one that counts it.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl Problem {
    /// The file, as it was named when it was loaded.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The line, from 1; `None` where the format does not tell.
    pub fn line(&self) -> Option<u32> {
        Some(self.place.line).filter(|line| *line > 0)
    }

    /// The column, in characters from 1; `None` where the format does not tell.
    pub fn column(&self) -> Option<u32> {
        Some(self.place.column).filter(|column| *column > 0)
    }

    /// What it is, with the endpoint and the key, and what was expected.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
        }
        if self.place.line > 0 {
            write!(f, "{}:{}:", self.place.line, self.place.column)?;
        }
        if self.file.is_some() || self.place.line > 0 {
            f.write_str(" ")?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

/// As [`Display`](fmt::Display): what `main` and `unwrap` print is to be read.
impl fmt::Debug for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for SettingsError {}
