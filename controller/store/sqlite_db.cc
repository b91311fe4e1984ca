#include "controller/store/sqlite_db.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

// 4 MiB with the usual pages.
constexpr int kPagesAtOnce = 1024;

// Error of a statement that always returns a row if the file is sound.
constexpr char kNoRow[] = "an answer is missing";

absl::Status CopyPages(SqliteDb& from, SqliteDb& to, const std::function<bool()>& is_cancelled) {
  sqlite3_backup* backup = sqlite3_backup_init(to.get(), "main", from.get(), "main");
  if (backup == nullptr) return to.Error(sqlite3_errcode(to.get()));
  int code = SQLITE_OK;
  bool cancelled = false;
  while (code == SQLITE_OK && !cancelled) {
    code = sqlite3_backup_step(backup, kPagesAtOnce);
    cancelled = is_cancelled();
  }
  // Returns the first error of either side once more.
  const int finished = sqlite3_backup_finish(backup);
  if (cancelled) return absl::CancelledError("the copy was cancelled");
  if (code == SQLITE_DONE && finished == SQLITE_OK) return absl::OkStatus();
  // The backup leaves its error in the destination.
  return to.Error(code == SQLITE_DONE ? finished : code);
}

}  // namespace

void SqliteDb::Close::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

void SqliteDb::Close::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

SqliteDb::SqliteDb(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}

absl::StatusOr<SqliteDb> SqliteDb::Open(const std::string& path, int flags) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  if (db == nullptr) return absl::ResourceExhaustedError("no memory for SQLite");
  SqliteDb opened(path, db);
  if (code != SQLITE_OK) return opened.Error(code);
  return opened;
}

absl::Status SqliteDb::Error(int code) const {
  const std::string line = absl::StrCat(path_, ": ", sqlite3_errmsg(db_.get()));
  // The system's error for a failed write, or for a map that cannot grow.
  const int system = sqlite3_system_errno(db_.get());
  switch (code & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(line);
    case SQLITE_IOERR:
      if (system == ENOSPC || system == EDQUOT) {
        return absl::ResourceExhaustedError(absl::StrCat(line, ": ", std::strerror(system)));
      }
      return absl::UnavailableError(line);
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

absl::Status SqliteDb::Execute(const std::string& sql) {
  const int code = sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<SqliteDb::Statement> SqliteDb::Prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(db_.get(), sql.c_str(), -1, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code);
  return Statement(statement);
}

absl::StatusOr<int64_t> SqliteDb::ReadNumber(const std::string& sql) {
  PACELINE_ASSIGN_OR_RETURN(const Statement statement, Prepare(sql));
  const int code = sqlite3_step(statement.get());
  if (code == SQLITE_DONE) return absl::DataLossError(absl::StrCat(path_, ": ", kNoRow));
  if (code != SQLITE_ROW) return Error(code);
  return sqlite3_column_int64(statement.get(), 0);
}

absl::StatusOr<std::string> SqliteDb::ReadText(const std::string& sql) {
  PACELINE_ASSIGN_OR_RETURN(const Statement statement, Prepare(sql));
  const int code = sqlite3_step(statement.get());
  if (code == SQLITE_DONE) return absl::DataLossError(absl::StrCat(path_, ": ", kNoRow));
  if (code != SQLITE_ROW) return Error(code);
  const unsigned char* text = sqlite3_column_text(statement.get(), 0);
  return std::string(text == nullptr ? "" : reinterpret_cast<const char*>(text));
}

absl::Status CopyDatabase(SqliteDb& from, const std::string& to, bool durable,
                          const std::function<bool()>& is_cancelled) {
  sqlite3_vfs* files = sqlite3_vfs_find(nullptr);
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
    files->xDelete(files, (to + suffix).c_str(), 0);  // A missing file need not be removed.
  }
  PACELINE_ASSIGN_OR_RETURN(
      SqliteDb copy,
      SqliteDb::Open(to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX));
  PACELINE_RETURN_IF_ERROR(
      copy.Execute(durable ? "PRAGMA synchronous = FULL"
                           : "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"));
  // All steps see the same state of `from`.
  PACELINE_RETURN_IF_ERROR(from.Execute("BEGIN"));
  absl::Status status = from.ReadNumber("SELECT count(*) FROM sqlite_master").status();
  if (status.ok()) status = CopyPages(from, copy, is_cancelled);
  from.Execute("ROLLBACK").IgnoreError();
  // The copy is marked as having a write-ahead log, as `from` is.
  if (status.ok()) status = copy.Execute("PRAGMA journal_mode = DELETE");
  return status;
}

}  // namespace paceline
