use std::cell::OnceCell;

use http::{HeaderMap, Method, Uri};

/// The protocol a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// Web Map Service.
    Wms,
    /// None that is known here.
    Unknown,
}

/// The kind of content that a good answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expected {
    /// Nothing is known of it.
    Unknown,
}

/// What a request asks for: protocol, name, whether it is safe to repeat, and the content a good answer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    protocol: Protocol,
    expected: Expected,
    safe: bool,
}

impl Operation {
    /// Reads the operation from a request, and from the head of its body where that is at hand.
    pub fn of(
        method: &Method,
        _uri: &Uri,
        _headers: &HeaderMap,
        _body_head: Option<&[u8]>,
    ) -> Self {
        Self {
            protocol: Protocol::Unknown,
            expected: Expected::Unknown,
            safe: method.is_safe(),
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The operation's name as the protocol spells it, such as `GetMap`; empty where unknown.
    pub fn name(&self) -> &str {
        ""
    }

    /// Whether sending the request twice has the effect of sending it once.
    pub fn is_safe_to_repeat(&self) -> bool {
        self.safe
    }

    /// Whether the request is known to speak a geospatial protocol.
    pub fn is_geospatial(&self) -> bool {
        self.protocol != Protocol::Unknown
    }

    /// The content a good answer holds.
    pub fn expected(&self) -> Expected {
        self.expected
    }
}

/// A request as far as its answer's meaning depends on it; the [`Operation`] is read when an answer first raises the question.
#[derive(Clone, Debug)]
pub struct Asked {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    operation: OnceCell<Operation>,
}

impl Asked {
    /// Keeps what is needed of a request: the method, the URI (a reference count) and `Accept`.
    pub fn new(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        Self {
            method: method.clone(),
            uri: uri.clone(),
            headers: headers.clone(),
            operation: OnceCell::new(),
        }
    }

    /// Uses an operation that is known already, such as one read with the head of the request's body.
    pub fn with_operation(self, operation: Operation) -> Self {
        Self {
            operation: OnceCell::from(operation),
            ..self
        }
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The operation, read at the first call.
    pub fn operation(&self) -> &Operation {
        self.operation
            .get_or_init(|| Operation::of(&self.method, &self.uri, &self.headers, None))
    }
}
