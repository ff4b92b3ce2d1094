use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower::BoxError;
use tower_service::Service;

use super::{ResponseBody, ResponseFuture};
use crate::gate::Gate;

/// Holds calls to a host that asked for peace; see the [module](super). Made by
/// [`CooldownLayer`](super::CooldownLayer). Clones share what the hosts said.
#[derive(Clone, Debug)]
pub struct Cooldown<S> {
    pub(super) gate: Gate<S>,
}

impl<S, B, R> Service<Request<B>> for Cooldown<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    R: Body,
{
    type Response = Response<ResponseBody<R>>;
    type Error = BoxError;
    type Future = ResponseFuture<S, B>;

    /// Always ready: what is waited for is waited for in the call, and no readiness below is held meanwhile.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    #[inline(always)]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.gate.call(request)
    }
}
