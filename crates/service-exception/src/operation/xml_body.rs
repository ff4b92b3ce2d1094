//! The operation of an XML request body: its root, or the first child of a SOAP body.

use super::names::{self, Name};
use crate::Protocol;
use crate::form::text;
use crate::form::xml::{Attributes, Scanner, Token, local_name};
use crate::kvp::{Decoded, contains_ignore_case};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Body<'a> {
    pub(super) protocol: Option<Protocol>,
    pub(super) name: Option<Name>,
    pub(super) unknown_name: Option<&'a [u8]>,
    is_xml: bool,
}

impl Body<'_> {
    /// Whether nothing in the body can hide another operation than the query names.
    pub(super) fn root_was_read_or_absent(&self) -> bool {
        !self.is_xml || self.name.is_some_and(|name| name.safe)
    }
}

/// Reads as far as the operation's element. UTF-16 is not copied for this: its root stays unknown, hence unsafe.
pub(super) fn read(head: &[u8]) -> Body<'_> {
    let mut body = Body {
        is_xml: true,
        ..Body::default()
    };
    let head = text::without_bom(head);
    let mut scanner = Scanner::default();
    let mut in_soap = false;
    while let Some(token) = scanner.next(head) {
        let Token::Start {
            name, attributes, ..
        } = token
        else {
            continue;
        };
        let qualified = &head[name];
        let local = local_name(qualified);
        match local {
            b"Envelope" => in_soap = true,
            b"Header" if in_soap => {
                // Whatever stands in the header is not the operation.
                let mut depth = 1;
                while depth > 0 {
                    match scanner.next(head) {
                        Some(Token::Start { empty: false, .. }) => depth += 1,
                        Some(Token::End { .. }) => depth -= 1,
                        Some(_) => {}
                        None => return body,
                    }
                }
            }
            b"Body" if in_soap => {}
            _ => {
                let attributes = Attributes::new(&head[attributes]);
                for (attribute, value) in attributes {
                    if attribute == b"service" {
                        body.protocol = names::service(Decoded(value));
                    } else if body.protocol.is_none() && attribute.starts_with(b"xmlns") {
                        let prefix = qualified
                            .iter()
                            .position(|&byte| byte == b':')
                            .map(|at| &qualified[..at]);
                        if attribute.strip_prefix(b"xmlns:") == prefix {
                            body.protocol = by_namespace(value);
                        }
                    }
                }
                body.name = names::by_element(local);
                if body.name.is_none() {
                    body.unknown_name = Some(local);
                }
                if local == b"osm-script" {
                    body.protocol = Some(Protocol::Overpass);
                    body.name = Some(Name {
                        name: "interpreter",
                        protocol: None,
                        safe: true,
                    });
                }
                return body;
            }
        }
    }
    body
}

fn by_namespace(namespace: &[u8]) -> Option<Protocol> {
    const NAMESPACES: &[(&str, Protocol)] = &[
        ("/wfs", Protocol::Wfs),
        ("/wms", Protocol::Wms),
        ("/sld", Protocol::Wms),
        ("/wcs", Protocol::Wcs),
        ("/wps", Protocol::Wps),
        ("/wmts", Protocol::Wmts),
        ("/cat/csw", Protocol::Csw),
        ("/sos", Protocol::Sos),
        ("/swes", Protocol::Sos),
        ("/sps", Protocol::Sps),
    ];
    if !contains_ignore_case(namespace, "opengis.net") {
        return None;
    }
    NAMESPACES
        .iter()
        .find(|(part, _)| contains_ignore_case(namespace, part))
        .map(|&(_, protocol)| protocol)
}
