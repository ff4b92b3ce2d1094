use std::{fs, path::Path};

/// A request as nginx logged it when it had ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Logged {
    /// The connection's number.
    pub(crate) connection: u64,
    pub(crate) status: u16,
    pub(crate) uri: String,
}

/// The whole lines of the log.
pub(super) fn read(log: &Path) -> Vec<Logged> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(parse).collect()
}

fn parse(line: &str) -> Logged {
    let mut fields = line.splitn(3, ' ');
    let mut next = || fields.next().unwrap_or_else(|| panic!("log line {line:?}"));
    Logged {
        connection: next().parse().unwrap(),
        status: next().parse().unwrap(),
        uri: next().into(),
    }
}
