#include "controller/store/state_schema.h"

#include <sqlite3.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

// "PCLN": marks a file as ours.
constexpr int64_t kApplicationId = 0x50434c4e;
constexpr char kSchema[] =
    "CREATE TABLE state (key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL, "
    "checksum INTEGER NOT NULL) WITHOUT ROWID";

// Migrates from the previous version to `version`. Released migrations must not be changed.
struct Migration {
  int64_t version;
  const char* sql;
};
constexpr Migration kMigrations[] = {
    {2,
     "ALTER TABLE state ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0; "
     "UPDATE state SET checksum = record_checksum(key, value)"},
};
constexpr int64_t kOldestVersion = 1;
static_assert(kOldestVersion + sizeof(kMigrations) / sizeof(kMigrations[0]) == kStateSchemaVersion,
              "each version but the oldest has its step");

absl::string_view BytesOf(sqlite3_value* value) {
  // The pointer comes first: asking for it may convert the value, and so change its size.
  const void* bytes = sqlite3_value_blob(value);
  return {static_cast<const char*>(bytes), static_cast<size_t>(sqlite3_value_bytes(value))};
}

// SQL function record_checksum(key, value) for the migrations.
void ChecksumForSql(sqlite3_context* context, int, sqlite3_value** values) {
  sqlite3_result_int64(context, RecordChecksum(BytesOf(values[0]), BytesOf(values[1])));
}

absl::Status Damaged(const SqliteDb& db, absl::string_view how) {
  return absl::DataLossError(absl::StrCat(db.path(), ": damaged: ", how));
}

// The tables are created in the same transaction as the file's first page.
absl::Status CheckTables(SqliteDb& db) {
  PACELINE_ASSIGN_OR_RETURN(const int64_t tables,
                            db.ReadNumber("SELECT count(*) FROM sqlite_master"));
  return tables > 0 ? absl::OkStatus() : Damaged(db, "it holds no state");
}

absl::Status CheckPages(SqliteDb& db) {
  PACELINE_ASSIGN_OR_RETURN(const std::string verdict, db.ReadText("PRAGMA quick_check(1)"));
  return verdict == "ok" ? absl::OkStatus() : Damaged(db, verdict);
}

absl::Status CheckRecords(SqliteDb& db) {
  PACELINE_ASSIGN_OR_RETURN(const SqliteDb::Statement all,
                            db.Prepare("SELECT key, value, checksum FROM state"));
  int code = SQLITE_OK;
  while ((code = sqlite3_step(all.get())) == SQLITE_ROW) {
    const auto column = [&all](int i) {
      const void* bytes = sqlite3_column_blob(all.get(), i);
      return absl::string_view(static_cast<const char*>(bytes),
                               static_cast<size_t>(sqlite3_column_bytes(all.get(), i)));
    };
    const absl::string_view key = column(0);
    if (sqlite3_column_int64(all.get(), 2) != RecordChecksum(key, column(1))) {
      return Damaged(db, absl::StrCat("the record ", key, " does not fit its checksum"));
    }
  }
  return code == SQLITE_DONE ? absl::OkStatus() : db.Error(code);
}

// Returns the version of a file with tables, if it is ours and this program knows the version.
absl::StatusOr<int64_t> KnownVersion(SqliteDb& db) {
  PACELINE_ASSIGN_OR_RETURN(const int64_t application, db.ReadNumber("PRAGMA application_id"));
  if (application != kApplicationId) {
    return absl::DataLossError(absl::StrCat(db.path(), ": this is another program's database"));
  }
  PACELINE_ASSIGN_OR_RETURN(const int64_t version, db.ReadNumber("PRAGMA user_version"));
  if (version > kStateSchemaVersion) {
    return absl::OutOfRangeError(absl::StrCat(db.path(), ": written by a newer version (schema ",
                                              version, ", this program knows ", kStateSchemaVersion,
                                              "): use that version"));
  }
  if (version < kOldestVersion) {
    return Damaged(db, absl::StrCat("no version has schema ", version));
  }
  return version;
}

absl::Status Migrate(SqliteDb& db, int64_t from) {
  const std::string kept = absl::StrCat(db.path(), ".v", from);
  PACELINE_RETURN_IF_ERROR(CopyDatabase(db, kept, /*durable=*/true, [] { return false; }));
  sqlite3_create_function_v2(db.get(), "record_checksum", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                             nullptr, &ChecksumForSql, nullptr, nullptr, nullptr);
  PACELINE_RETURN_IF_ERROR(db.Execute("BEGIN IMMEDIATE"));
  absl::Status status;
  for (const Migration& migration : kMigrations) {
    if (status.ok() && migration.version > from) status = db.Execute(migration.sql);
  }
  if (status.ok()) {
    status = db.Execute(absl::StrCat("PRAGMA user_version = ", kStateSchemaVersion));
  }
  if (status.ok()) status = db.Execute("COMMIT");
  if (!status.ok()) db.Execute("ROLLBACK").IgnoreError();
  return status;
}

}  // namespace

int64_t RecordChecksum(absl::string_view key, absl::string_view value) {
  // The value's checksum has a fixed length, so that different pairs never give the same text.
  return static_cast<int64_t>(
      ChecksumOf(absl::StrCat(absl::Hex(ChecksumOf(value), absl::kZeroPad16), key)));
}

absl::Status PrepareState(SqliteDb& db) {
  PACELINE_ASSIGN_OR_RETURN(const int64_t pages, db.ReadNumber("PRAGMA page_count"));
  if (pages == 0) {
    return db.Execute(absl::StrCat("BEGIN IMMEDIATE; PRAGMA application_id = ", kApplicationId,
                                   "; PRAGMA user_version = ", kStateSchemaVersion, "; ", kSchema,
                                   "; COMMIT"));
  }
  PACELINE_RETURN_IF_ERROR(CheckTables(db));
  PACELINE_ASSIGN_OR_RETURN(const int64_t version, KnownVersion(db));
  PACELINE_RETURN_IF_ERROR(CheckPages(db));
  if (version < kStateSchemaVersion) PACELINE_RETURN_IF_ERROR(Migrate(db, version));
  return CheckRecords(db);
}

absl::Status CheckState(SqliteDb& db) {
  PACELINE_RETURN_IF_ERROR(CheckTables(db));
  PACELINE_ASSIGN_OR_RETURN(const int64_t version, KnownVersion(db));
  PACELINE_RETURN_IF_ERROR(CheckPages(db));
  // Older versions have no checksums.
  return version == kStateSchemaVersion ? CheckRecords(db) : absl::OkStatus();
}

}  // namespace paceline
