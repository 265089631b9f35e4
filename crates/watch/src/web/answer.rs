// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes HTTP responses.

use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use std::io;

/// A response whose body is complete, or is sent in pieces.
pub(crate) type Answer = Response<Either<Full<Bytes>, Channel<Bytes, io::Error>>>;

/// Makes a response with one line of text.
pub(crate) fn plain(status: StatusCode, text: &str) -> Answer {
    whole(status, "text/plain; charset=utf-8", text.to_owned())
}

/// Makes a response that asks the client to try again after some seconds.
pub(crate) fn later(text: &str, seconds: u64) -> Answer {
    let mut answer = plain(StatusCode::SERVICE_UNAVAILABLE, text);
    let headers = answer.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    answer
}

/// Makes a response with a complete body of type `kind`.
pub(crate) fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Either::Left(Full::from(body.into())));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}
