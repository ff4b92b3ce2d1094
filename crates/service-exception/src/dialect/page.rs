use super::{Answer, Dialect, Report};
use crate::form::html::Page;
use crate::kvp::contains_ignore_case;
use crate::{Disposition, Expected, Protocol, code};

/// Pages for people: of gateways, caches, containers, map servers, sign-in and maintenance.
#[derive(Debug)]
pub(super) struct HtmlPage;

impl Dialect for HtmlPage {
    fn name(&self) -> &'static str {
        "html-page"
    }

    fn summary(&self) -> &'static str {
        "a page where data was asked for, or one that is headed as an error: MapServer, Tomcat, Jetty, Apache, nginx, HAProxy, Squid, \
         Varnish, CloudFront, Cloudflare, Akamai, sign-in, maintenance"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let page = answer.page()?;
        let kind = kind(page, answer);
        if !answer.has_failed()
            && kind == Kind::Unknown
            && !is_unasked(answer)
            && !shows_nothing(page, answer)
        {
            return None;
        }
        if !answer.has_failed() && kind == Kind::SignIn && !is_unasked(answer) {
            let operation = answer.asked().operation();
            // Of a site that is not known, the page may be what was asked for.
            if operation.expected() == Expected::Html || !operation.is_geospatial() {
                return None;
            }
        }
        let words = page.words();
        let report = match page.status() {
            Some(status) => Report::new(words.as_str()).with_status(status),
            None => Report::new(words.as_str()),
        };
        Some(match kind {
            Kind::SignIn | Kind::Challenge => report.with_disposition(Disposition::Permanent),
            _ if answer.has_failed() || page.status().is_some() || is_short(page) => report,
            // On a long page the words of the text are about anything; its title and heading are about itself.
            _ => {
                let headed = format!("{} {}", page.title(), page.heading());
                report.with_disposition(code::of_text(&headed).unwrap_or(Disposition::Ambiguous))
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Headed with a status, or as a message of the server.
    Error,
    SignIn,
    Challenge,
    Maintenance,
    Unknown,
}

fn kind(page: &Page, answer: &Answer<'_>) -> Kind {
    // Of a page that may be what was asked for, its title counts: its headings may be about errors.
    let heads = match page.has_title_of_its_own() && !is_unasked(answer) {
        true => [page.title(), ""],
        false => [page.title(), page.heading()],
    };
    let headed = |words: &[&str]| {
        let names = |head: &str| {
            words
                .iter()
                .any(|word| contains_ignore_case(head.as_bytes(), word))
        };
        heads.iter().any(|head| head.len() < 120 && names(head))
    };
    if answer.hints.challenge
        || headed(&[
            "just a moment",
            "attention required",
            "checking your browser",
            "are you a human",
            "captcha",
            "ddos protection",
        ])
    {
        return Kind::Challenge;
    }
    if page.status().is_some() {
        return Kind::Error;
    }
    if page.asks_for_password()
        || headed(&[
            "sign in",
            "sign-in",
            "log in",
            "login",
            "log on",
            "single sign",
            "anmeld",
            "connexion",
            "authentication required",
        ])
    {
        return Kind::SignIn;
    }
    if headed(&[
        "maintenance",
        "temporarily",
        "unavailable",
        "down for",
        "be right back",
        "wartung",
    ]) {
        return Kind::Maintenance;
    }
    let is_message = headed(&[
        "mapserver message",
        "server message",
        "request rejected",
        "request blocked",
        "guru meditation",
    ]);
    let is_error = headed(&[
        "error",
        "exception",
        "access denied",
        "forbidden",
        "bad gateway",
        "timeout",
        "time-out",
        "not found",
        "too many requests",
        "could not be retrieved",
        "could not be satisfied",
        "fehler",
        "erreur",
    ]) && is_short(page);
    // MapServer puts the routine's name before each message.
    let is_routine =
        page.text().starts_with("ms") && page.text().find("(): ").is_some_and(|at| at < 40);
    if is_message || is_error || is_routine {
        Kind::Error
    } else {
        Kind::Unknown
    }
}

/// Whether a page cannot be what was asked for.
fn is_unasked(answer: &Answer<'_>) -> bool {
    let operation = answer.asked().operation();
    match operation.expected() {
        Expected::Html => false,
        Expected::Unknown => {
            operation.name() != "GetFeatureInfo"
                && !operation.takes_a_format()
                && matches!(
                    operation.protocol(),
                    Protocol::Wfs
                        | Protocol::Wcs
                        | Protocol::Csw
                        | Protocol::Sos
                        | Protocol::Sps
                        | Protocol::Wmts
                        | Protocol::Tms
                        | Protocol::Overpass
                        | Protocol::Tiles
                        | Protocol::Stac
                        | Protocol::OpenEo
                        | Protocol::SensorThings
                )
        }
        _ => true,
    }
}

/// An items page of a whole collection that shows none: what pygeoapi makes of a source that is gone.
fn shows_nothing(page: &Page, answer: &Answer<'_>) -> bool {
    let path = answer.asked().path().trim_end_matches('/');
    let query = answer.asked().query();
    path.ends_with("/items")
        && !["bbox", "datetime", "filter", "offset", "q="]
            .iter()
            .any(|filter| contains_ignore_case(query.as_bytes(), filter))
        && page.text().contains("No items")
}

fn is_short(page: &Page) -> bool {
    page.text().len() < 800
}
