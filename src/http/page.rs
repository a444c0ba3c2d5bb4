//! The page: its files are in the folder beside this one and inside the binary.
//!
//! No build step, no other origin: what is written is what is served. A browser keeps a file and
//! asks whether it is still the same; the tag is the digest of what it holds.

use actix_web::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use actix_web::{HttpRequest, HttpResponse, web};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::problem::wrong_method;

/// One file of the page.
struct File {
    name: &'static str,
    kind: &'static str,
    text: &'static [u8],
}

/// Takes a file of the folder into the binary.
macro_rules! file {
    ($name:literal) => {
        File { name: $name, kind: kind($name), text: include_bytes!(concat!("page/", $name)) }
    };
}

/// The files; `index.html` is the page itself.
const FILES: &[File] = &[
    file!("index.html"),
    file!("page.css"),
    file!("icon.svg"),
    file!("page.js"),
    file!("api.js"),
    file!("dom.js"),
    file!("format.js"),
    file!("dialogs.js"),
    file!("fleet.js"),
    file!("pool.js"),
    file!("instances.js"),
    file!("instance.js"),
    file!("timeline.js"),
    file!("sparkline.js"),
    file!("jobs.js"),
    file!("deaths.js"),
];

/// Mounts the page.
pub(super) fn routes(app: &mut web::ServiceConfig) {
    for file in FILES {
        let path =
            if file.name == "index.html" { "/".into() } else { format!("/page/{}", file.name) };
        let tag = tag_of(file.text);
        let serve = move |request: HttpRequest| {
            let answer = serve(file, &tag, &request);
            async move { answer }
        };
        let others = |request: HttpRequest| async move { wrong_method(&request, "GET, HEAD") };
        app.service(
            web::resource(path)
                .route(web::get().to(serve.clone()))
                .route(web::head().to(serve))
                .default_service(web::to(others)),
        );
    }
}

fn serve(file: &File, tag: &str, request: &HttpRequest) -> HttpResponse {
    let known = request.headers().get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let same = known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag));
    let mut answer = if same { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer.insert_header((ETAG, tag)).insert_header((CACHE_CONTROL, "no-cache"));
    if same {
        return answer.finish();
    }
    answer.content_type(file.kind).body(file.text)
}

/// Returns the media type of a file.
const fn kind(name: &str) -> &'static str {
    match name.as_bytes() {
        [.., b'.', b'h', b't', b'm', b'l'] => "text/html; charset=utf-8",
        [.., b'.', b'c', b's', b's'] => "text/css; charset=utf-8",
        [.., b'.', b'j', b's'] => "text/javascript; charset=utf-8",
        [.., b'.', b's', b'v', b'g'] => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

fn tag_of(text: &[u8]) -> String {
    let digest = URL_SAFE_NO_PAD.encode(digest(&SHA256, text));
    format!("\"{}\"", digest.get(..16).unwrap_or(&digest))
}
