#include "controller/store/sqlite_store.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

// "PCLN": says that a file is ours.
constexpr int64_t kApplicationId = 0x50434c4e;
constexpr int64_t kSchemaVersion = 1;
constexpr char kSchema[] =
    "CREATE TABLE state (key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL) WITHOUT ROWID";

}  // namespace

void SqliteStore::Close::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

void SqliteStore::Close::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

SqliteStore::SqliteStore(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}

SqliteStore::~SqliteStore() = default;

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& path) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (db == nullptr) return absl::ResourceExhaustedError("no memory for SQLite");
  std::unique_ptr<SqliteStore> store(new SqliteStore(path, db));
  if (code != SQLITE_OK) return store->Error(code);
  PACELINE_RETURN_IF_ERROR(store->Initialize());
  return store;
}

absl::Status SqliteStore::Error(int code) const {
  const std::string line = absl::StrCat(path_, ": ", sqlite3_errmsg(db_.get()));
  switch (code & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(line);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(line);
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(line);
    default:
      return absl::UnavailableError(line);
  }
}

absl::Status SqliteStore::Execute(const char* sql) {
  const int code = sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<SqliteStore::Statement> SqliteStore::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(db_.get(), sql, -1, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code);
  return Statement(statement);
}

absl::StatusOr<int64_t> SqliteStore::ReadNumber(const char* sql) {
  PACELINE_ASSIGN_OR_RETURN(const Statement statement, Prepare(sql));
  const int code = sqlite3_step(statement.get());
  if (code != SQLITE_ROW) return Error(code);
  return sqlite3_column_int64(statement.get(), 0);
}

absl::Status SqliteStore::Initialize() {
  // The first read: finds out whether the file is a database at all.
  PACELINE_RETURN_IF_ERROR(CheckOrCreateSchema());
  // Some builds sync less by default: say what we need, and see that we have it.
  PACELINE_RETURN_IF_ERROR(Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"));
  PACELINE_ASSIGN_OR_RETURN(const int64_t synchronous, ReadNumber("PRAGMA synchronous"));
  if (synchronous != 2) {
    return absl::UnavailableError(absl::StrCat(path_, ": commits cannot be made durable"));
  }
  PACELINE_ASSIGN_OR_RETURN(put_, Prepare("INSERT OR REPLACE INTO state VALUES (?1, ?2)"));
  PACELINE_ASSIGN_OR_RETURN(delete_, Prepare("DELETE FROM state WHERE key = ?1"));
  PACELINE_ASSIGN_OR_RETURN(
      load_, Prepare("SELECT key, value FROM state WHERE key >= ?1 AND substr(key, 1, length(?1)) "
                     "= ?1 ORDER BY key"));
  return absl::OkStatus();
}

absl::Status SqliteStore::CheckOrCreateSchema() {
  PACELINE_ASSIGN_OR_RETURN(const int64_t tables, ReadNumber("SELECT count(*) FROM sqlite_master"));
  if (tables == 0) {
    return Execute(absl::StrCat("BEGIN IMMEDIATE; PRAGMA application_id = ", kApplicationId,
                                "; PRAGMA user_version = ", kSchemaVersion, "; ", kSchema,
                                "; COMMIT")
                       .c_str());
  }
  PACELINE_ASSIGN_OR_RETURN(const int64_t application, ReadNumber("PRAGMA application_id"));
  if (application != kApplicationId) {
    return absl::DataLossError(absl::StrCat(path_, ": this is another program's database"));
  }
  PACELINE_ASSIGN_OR_RETURN(const int64_t version, ReadNumber("PRAGMA user_version"));
  if (version > kSchemaVersion) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": written by a newer version (schema ",
                                              version, ", this program knows ", kSchemaVersion,
                                              "): use that version"));
  }
  PACELINE_ASSIGN_OR_RETURN(const Statement check, Prepare("PRAGMA quick_check(1)"));
  const int code = sqlite3_step(check.get());
  if (code != SQLITE_ROW) return Error(code);
  const std::string verdict = reinterpret_cast<const char*>(sqlite3_column_text(check.get(), 0));
  if (verdict != "ok") return absl::DataLossError(absl::StrCat(path_, ": damaged: ", verdict));
  return absl::OkStatus();
}

absl::Status SqliteStore::Commit(const WriteBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status = Apply(batch);
  if (status.ok()) status = Execute("COMMIT");
  if (!status.ok()) Execute("ROLLBACK").IgnoreError();
  return status;
}

absl::Status SqliteStore::Apply(const WriteBatch& batch) {
  const auto run = [this](sqlite3_stmt* statement) {
    const int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    return code == SQLITE_DONE ? absl::OkStatus() : Error(code);
  };
  for (const auto& [key, value] : batch.puts) {
    sqlite3_bind_text(put_.get(), 1, key.data(), key.size(), SQLITE_STATIC);
    sqlite3_bind_blob(put_.get(), 2, value.data(), value.size(), SQLITE_STATIC);
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
  if (code != SQLITE_DONE) return Error(code);
  return entries;
}

int64_t SqliteStore::SizeBytes() {
  const auto pages = ReadNumber("PRAGMA page_count");
  const auto size = ReadNumber("PRAGMA page_size");
  return pages.ok() && size.ok() ? *pages * *size : 0;
}

}  // namespace paceline
