//! What a GARM installation consists of, found in its rows, whichever way they came.

use std::collections::BTreeMap;

use serde_json::Value;

/// Holds rows as they came: tables of the database, or lists of the API.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub(super) endpoints: Vec<Value>,
    pub(super) credentials: Vec<Value>,
    pub(super) gitea: Vec<Value>,
    pub(super) repositories: Vec<Value>,
    pub(super) organizations: Vec<Value>,
    pub(super) enterprises: Vec<Value>,
    pub(super) pools: Vec<Value>,
    pub(super) pool_tags: Vec<Value>,
    pub(super) tags: Vec<Value>,
    pub(super) scale_sets: Vec<Value>,
    pub(super) controllers: Vec<Value>,
}

/// Finds the place for the rows of one table or list.
pub(super) type Place = fn(&mut Rows) -> &mut Vec<Value>;
/// Finds the scope that a row stands for.
type Name<'a> = &'a dyn Fn(&Value) -> Option<String>;

/// Holds what was found.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub(super) endpoints: BTreeMap<String, Endpoint>,
    pub(super) credentials: BTreeMap<String, Credential>,
    pub(super) pools: Vec<GarmPool>,
    pub(super) public_url: Option<String>,
    /// What has no equivalent.
    pub(super) lost: Vec<String>,
}

/// A forge, as GARM knows it.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) api_url: String,
    pub(super) gitea: bool,
}

/// A credential, by its name; its secret stays where it is.
#[derive(Clone, Debug)]
pub(super) struct Credential {
    pub(super) endpoint: String,
    pub(super) app: bool,
    pub(super) scopes: Vec<String>,
}

/// A pool with its scope.
#[derive(Clone, Debug)]
pub(super) struct GarmPool {
    pub(super) row: Value,
    pub(super) scope: String,
    pub(super) endpoint: String,
    pub(super) labels: Vec<String>,
}

/// An entity: what a pool belongs to.
struct Entity {
    scope: String,
    endpoint: String,
    credential: String,
}

impl Survey {
    /// Finds out what rows say together.
    pub fn of(rows: &Rows) -> Self {
        let mut survey = Self::default();
        for row in &rows.endpoints {
            let api_url = text(row, &["api_base_url"]).unwrap_or("https://api.github.com");
            let api_url = api_url.trim_end_matches('/').to_owned();
            let gitea = text(row, &["endpoint_type"]) == Some("gitea");
            let name = text(row, &["name"]).unwrap_or("github.com").to_owned();
            survey.endpoints.insert(name, Endpoint { api_url, gitea });
        }
        let mut by_id = BTreeMap::new();
        for row in &rows.credentials {
            let Some(name) = text(row, &["name"]) else { continue };
            let endpoint = inner(row, "endpoint", "name").or_else(|| text(row, &["endpoint_name"]));
            let app = text(row, &["auth_type", "auth-type"]) == Some("app");
            let endpoint = endpoint.unwrap_or("github.com").to_owned();
            let credential = Credential { endpoint, app, scopes: Vec::new() };
            by_id.insert(id(row, "id"), name.to_owned());
            survey.credentials.insert(name.to_owned(), credential);
        }
        let entities = survey.entities(rows, &by_id);
        survey.take_pools(rows, &entities);
        survey.public_url = rows.controllers.iter().find_map(|row| {
            let url = text(row, &["callback_url", "metadata_url", "webhook_base_url"])?;
            let (scheme, rest) = url.split_once("://")?;
            Some(format!("{scheme}://{}", rest.split('/').next()?))
        });
        for row in &rows.scale_sets {
            let name = text(row, &["name"]).unwrap_or("?");
            survey.lost.push(format!(
                "scale set `{name}`: scale sets are not in this release; write a [[pool]] with its labels"
            ));
        }
        if !rows.gitea.is_empty() {
            let many = rows.gitea.len();
            survey.lost.push(format!("{many} credential(s) of Gitea: only GitHub is served"));
        }
        survey
    }

    fn entities(
        &mut self,
        rows: &Rows,
        credentials: &BTreeMap<String, String>,
    ) -> BTreeMap<String, Entity> {
        let repository =
            |row: &Value| Some(format!("{}/{}", text(row, &["owner"])?, text(row, &["name"])?));
        let organization = |row: &Value| text(row, &["name"]).map(str::to_owned);
        let enterprise = |row: &Value| Some(format!("enterprises/{}", text(row, &["name"])?));
        let kinds: [(&[Value], Name<'_>); 3] = [
            (&rows.repositories, &repository),
            (&rows.organizations, &organization),
            (&rows.enterprises, &enterprise),
        ];
        let mut found = BTreeMap::new();
        for (row, scope) in kinds
            .iter()
            .flat_map(|(rows, name)| rows.iter().filter_map(move |row| Some((row, name(row)?))))
        {
            let named = text(row, &["credentials_name"]).map(str::to_owned);
            let credential = named.or_else(|| credentials.get(&id(row, "credentials_id")).cloned());
            let credential = credential.unwrap_or_default();
            let endpoint = inner(row, "endpoint", "name").or_else(|| text(row, &["endpoint_name"]));
            let known = self.credentials.get_mut(&credential);
            let endpoint = match (endpoint, &known) {
                (Some(endpoint), _) => endpoint.to_owned(),
                (None, Some(credential)) => credential.endpoint.clone(),
                (None, None) => "github.com".to_owned(),
            };
            if let Some(known) = known {
                known.scopes.push(scope.clone());
            }
            if text(row, &["pool_balancer_type"]) == Some("pack") {
                self.lost
                    .push(format!("{scope}: balancing `pack` becomes the order of pools here"));
            }
            found.insert(id(row, "id"), Entity { scope, endpoint, credential });
        }
        found
    }

    fn take_pools(&mut self, rows: &Rows, entities: &BTreeMap<String, Entity>) {
        let tags: BTreeMap<String, &str> = rows
            .tags
            .iter()
            .filter_map(|row| Some((id(row, "id"), text(row, &["name"])?)))
            .collect();
        for row in &rows.pools {
            let of = id(row, "id");
            let owner = ["repo_id", "org_id", "enterprise_id"].iter().map(|key| id(row, key));
            let Some(entity) = owner.into_iter().find_map(|owner| entities.get(&owner)) else {
                self.lost.push(format!("pool {of}: it belongs to nothing that is there any more"));
                continue;
            };
            let listed = row.get("tags").and_then(Value::as_array).into_iter().flatten();
            let listed = listed.filter_map(|tag| text(tag, &["name"]).or(tag.as_str()));
            let linked = rows.pool_tags.iter().filter(|link| id(link, "pool_id") == of);
            let linked = linked.filter_map(|link| tags.get(&id(link, "tag_id")).copied());
            let mut labels: Vec<String> = listed.chain(linked).map(str::to_owned).collect();
            labels.sort();
            labels.dedup();
            if entity.credential.is_empty() {
                self.lost.push(format!("{}: it has no credential; name one", entity.scope));
            }
            self.pools.push(GarmPool {
                row: row.clone(),
                scope: entity.scope.clone(),
                endpoint: entity.endpoint.clone(),
                labels,
            });
        }
    }
}

/// Returns the first of these fields that is a text with something in it.
pub(super) fn text<'a>(row: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().filter_map(|key| row.get(key)?.as_str()).find(|text| !text.is_empty())
}

/// Returns a number, however it is written.
pub(super) fn number(row: &Value, key: &str) -> Option<i64> {
    let value = row.get(key)?;
    value.as_i64().or_else(|| value.as_bool().map(i64::from))
}

/// Returns an id as a text; nothing matches an id that is not there.
fn id(row: &Value, key: &str) -> String {
    match row.get(key) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => format!("no {key}"),
    }
}

fn inner<'a>(row: &'a Value, outer: &str, key: &str) -> Option<&'a str> {
    text(row.get(outer)?, &[key])
}
