#include "controller/store/sqlite_store.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "controller/store/state_schema.h"

namespace paceline {

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(
      SqliteDb db,
      SqliteDb::Open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX));
  std::unique_ptr<SqliteStore> store(new SqliteStore(std::move(db)));
  PACELINE_RETURN_IF_ERROR(store->Initialize());
  return store;
}

absl::Status SqliteStore::Initialize() {
  // Some builds of SQLite sync less by default: set what we need, and check it.
  PACELINE_RETURN_IF_ERROR(db_.Execute("PRAGMA synchronous = FULL"));
  PACELINE_RETURN_IF_ERROR(PrepareState(db_));
  PACELINE_RETURN_IF_ERROR(db_.Execute("PRAGMA journal_mode = WAL"));
  PACELINE_ASSIGN_OR_RETURN(const int64_t synchronous, db_.ReadNumber("PRAGMA synchronous"));
  if (synchronous != 2) {
    return absl::UnavailableError(absl::StrCat(db_.path(), ": commits cannot be made durable"));
  }
  PACELINE_ASSIGN_OR_RETURN(put_, db_.Prepare("INSERT OR REPLACE INTO state VALUES (?1, ?2, ?3)"));
  PACELINE_ASSIGN_OR_RETURN(delete_, db_.Prepare("DELETE FROM state WHERE key = ?1"));
  PACELINE_ASSIGN_OR_RETURN(load_, db_.Prepare("SELECT key, value FROM state WHERE key >= ?1 AND "
                                               "substr(key, 1, length(?1)) = ?1 ORDER BY key"));
  return absl::OkStatus();
}

absl::Status SqliteStore::Commit(const WriteBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(db_.Execute("BEGIN IMMEDIATE"));
  absl::Status status = Apply(batch);
  if (status.ok()) status = db_.Execute("COMMIT");
  if (!status.ok()) db_.Execute("ROLLBACK").IgnoreError();
  return status;
}

absl::Status SqliteStore::Apply(const WriteBatch& batch) {
  const auto run = [this](sqlite3_stmt* statement) {
    const int code = sqlite3_step(statement);
    // Read before the reset, which may replace this error's text.
    absl::Status status = code == SQLITE_DONE ? absl::OkStatus() : db_.Error(code);
    sqlite3_reset(statement);
    return status;
  };
  for (const auto& [key, value] : batch.puts) {
    sqlite3_bind_text(put_.get(), 1, key.data(), key.size(), SQLITE_STATIC);
    sqlite3_bind_blob(put_.get(), 2, value.data(), value.size(), SQLITE_STATIC);
    sqlite3_bind_int64(put_.get(), 3, RecordChecksum(key, value));
    PACELINE_RETURN_IF_ERROR(run(put_.get()));
  }
  for (const std::string& key : batch.deletes) {
    sqlite3_bind_text(delete_.get(), 1, key.data(), key.size(), SQLITE_STATIC);
    PACELINE_RETURN_IF_ERROR(run(delete_.get()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, std::string>> SqliteStore::Load(const std::string& prefix) {
  std::map<std::string, std::string> entries;
  sqlite3_bind_text(load_.get(), 1, prefix.data(), prefix.size(), SQLITE_STATIC);
  int code = SQLITE_OK;
  while ((code = sqlite3_step(load_.get())) == SQLITE_ROW) {
    const auto column = [this](int i) {
      return std::string(static_cast<const char*>(sqlite3_column_blob(load_.get(), i)),
                         sqlite3_column_bytes(load_.get(), i));
    };
    entries.emplace(column(0), column(1));
  }
  sqlite3_reset(load_.get());
  if (code != SQLITE_DONE) return db_.Error(code);
  return entries;
}

int64_t SqliteStore::SizeBytes() {
  const auto pages = db_.ReadNumber("PRAGMA page_count");
  const auto size = db_.ReadNumber("PRAGMA page_size");
  return pages.ok() && size.ok() ? *pages * *size : 0;
}

}  // namespace paceline
