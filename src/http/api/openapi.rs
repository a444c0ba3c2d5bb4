//! The description of the API, made from the handlers; `openapi.json` beside it is its copy.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::shapes::{Event, Lagged, Totals};
use super::{actions, deaths, fleet, instances, jobs, pools, stream};

/// Gathers the description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Ostler",
        description = "What a fleet of CI runners does, why, and a few actions. Reads take the role `viewer`, \
                       actions the role `operator`; without configured tokens only this machine may ask. \
                       Errors are `application/problem+json` with a sentence to act on.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(
        fleet::fleet,
        pools::list,
        pools::one,
        pools::explain,
        actions::drain,
        actions::resume,
        instances::list,
        instances::one,
        actions::delete,
        instances::timeline,
        instances::explain,
        actions::forget,
        actions::adopt,
        jobs::list,
        jobs::one,
        jobs::timeline,
        jobs::explain,
        deaths::list,
        deaths::one,
        stream::events,
        fleet::config,
        fleet::version,
    ),
    components(schemas(Event, Lagged, Totals)),
    modifiers(&Bearer),
    security(("token" = []))
)]
struct Described;

/// Says how tokens travel.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

/// Returns the description as JSON, OpenAPI 3.1.
pub fn document() -> String {
    // It is made of constants, all of which JSON can hold.
    let mut text = Described::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}
