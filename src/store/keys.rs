//! Owners and their API keys. Only a key's hash is stored; it is found by its public part.

use sqlx::Row;
use uuid::Uuid;

use super::rows::unknown_word;
use super::{Store, StoreError, retrying};
use crate::domain::Timestamp;
use crate::domain::ids::{ApiKeyId, OwnerId};
use crate::domain::route::KeyPolicy;

/// What is known of a key that was presented, before its secret is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiKeyRow {
    pub id: ApiKeyId,
    pub owner: OwnerId,
    /// The owner's name, by which the settings know it.
    pub owner_name: String,
    pub secret_sha256: [u8; 32],
    /// Overrides the route's policy where set.
    pub idempotency: Option<KeyPolicy>,
    pub revoked: bool,
}

/// A key as listed.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedKey {
    pub id: ApiKeyId,
    pub owner: String,
    pub public_id: String,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

const ENSURE_OWNER: &str = "/* ensure_owner */
INSERT INTO owners (id, name) VALUES ($1, $2) ON CONFLICT ON CONSTRAINT owners_one_per_name DO NOTHING";
const OWNER_BY_NAME: &str = "/* owner_by_name */ SELECT id FROM owners WHERE name = $1";
const CREATE_KEY: &str = "/* create_key */
INSERT INTO api_keys (id, owner_id, public_id, secret_sha256, idempotency) VALUES ($1, $2, $3, $4, $5)";
const FIND_KEY: &str = "/* find_key */
SELECT k.id, k.owner_id, o.name, k.secret_sha256, k.idempotency, k.revoked_at IS NOT NULL AS revoked
FROM api_keys k JOIN owners o ON o.id = k.owner_id WHERE k.public_id = $1";
const LIST_KEYS: &str = "/* list_keys */
SELECT k.id, o.name, k.public_id, k.created_at, k.revoked_at FROM api_keys k JOIN owners o ON o.id = k.owner_id
ORDER BY o.name, k.created_at";
const REVOKE_KEY: &str = "/* revoke_key */ UPDATE api_keys SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL";

impl Store {
    /// The owner of that name, made where there is none.
    pub async fn ensure_owner(&self, name: &str) -> Result<OwnerId, StoreError> {
        let fresh = OwnerId::fresh();
        retrying(|| sqlx::query(ENSURE_OWNER).bind(fresh).bind(name).execute(&self.pool)).await?;
        retrying(|| sqlx::query_scalar(OWNER_BY_NAME).bind(name).fetch_one(&self.pool)).await
    }

    /// The owner of that name.
    pub async fn owner_by_name(&self, name: &str) -> Result<Option<OwnerId>, StoreError> {
        retrying(|| sqlx::query_scalar(OWNER_BY_NAME).bind(name).fetch_optional(&self.pool)).await
    }

    pub async fn create_key(
        &self,
        id: ApiKeyId,
        owner: OwnerId,
        public_id: &str,
        secret_sha256: [u8; 32],
        idempotency: Option<KeyPolicy>,
    ) -> Result<(), StoreError> {
        let idempotency = idempotency.map(|policy| match policy {
            KeyPolicy::Required => "required",
            KeyPolicy::Generate => "generate",
        });
        sqlx::query(CREATE_KEY)
            .bind(id)
            .bind(owner)
            .bind(public_id)
            .bind(&secret_sha256[..])
            .bind(idempotency)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    pub async fn find_key(&self, public_id: &str) -> Result<Option<ApiKeyRow>, StoreError> {
        let row = retrying(|| sqlx::query(FIND_KEY).bind(public_id).fetch_optional(&self.pool)).await?;
        let Some(row) = row else { return Ok(None) };
        let hash: Vec<u8> = row.try_get("secret_sha256")?;
        Ok(Some(ApiKeyRow {
            id: row.try_get("id")?,
            owner: row.try_get("owner_id")?,
            owner_name: row.try_get("name")?,
            secret_sha256: hash.try_into().map_err(|_| unknown_word("secret_sha256", "of another length"))?,
            idempotency: match row.try_get::<Option<&str>, _>("idempotency")? {
                None => None,
                Some("required") => Some(KeyPolicy::Required),
                Some("generate") => Some(KeyPolicy::Generate),
                Some(other) => return Err(unknown_word("api_keys.idempotency", other).into()),
            },
            revoked: row.try_get("revoked")?,
        }))
    }

    pub async fn list_keys(&self) -> Result<Vec<ListedKey>, StoreError> {
        let rows: Vec<(Uuid, String, String, Timestamp, Option<Timestamp>)> =
            sqlx::query_as(LIST_KEYS).fetch_all(&self.pool).await?;
        Ok(rows
            .into_iter()
            .map(|(id, owner, public_id, created_at, revoked_at)| ListedKey {
                id: id.into(),
                owner,
                public_id,
                created_at,
                revoked_at,
            })
            .collect())
    }

    /// False: there is no such live key.
    pub async fn revoke_key(&self, id: ApiKeyId) -> Result<bool, StoreError> {
        Ok(sqlx::query(REVOKE_KEY).bind(id).execute(&self.pool).await?.rows_affected() == 1)
    }
}
