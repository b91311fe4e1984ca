#include "controller/store/state_file.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/status_macros.h"
#include "common/state_lock/state_lock.h"
#include "controller/store/meta_keys.h"
#include "controller/store/sqlite_db.h"
#include "controller/store/sqlite_store.h"
#include "controller/store/state_schema.h"

namespace paceline {
namespace {

constexpr int64_t kBeginOf2020 = 1577836800;

bool Exists(const std::string& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0;
}

// A log without its file counts, since it would be read as the log of any file put beside it.
bool HoldsState(const std::string& state) { return Exists(state) || Exists(state + "-wal"); }

absl::Status SystemError(const std::string& what) {
  const std::string line = absl::StrCat(what, ": ", std::strerror(errno));
  return errno == ENOSPC || errno == EDQUOT ? absl::ResourceExhaustedError(line)
                                            : absl::PermissionDeniedError(line);
}

absl::StatusOr<SqliteDb> OpenToRead(const std::string& path) {
  if (!Exists(path)) return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  return SqliteDb::Open(path, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX);
}

void RemoveWithLog(const std::string& path) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) unlink((path + suffix).c_str());
}

absl::Status Lost(const std::string& path, const std::string& how) {
  return absl::DataLossError(absl::StrCat(
      path, ": ", how,
      ": the state is lost. `paceline admin restore --force` puts a backup back; to begin a new "
      "cluster without it, remove what is left"));
}

// Checks that closing a store has left no log beside its file.
absl::Status CheckNoLog(const std::string& path) {
  if (!Exists(path + "-wal")) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": its log could not be written back"));
}

// Marks the store at `path` as restored.
absl::Status MarkRestored(const std::string& path, int64_t number) {
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteStore> store, SqliteStore::Open(path));
  PACELINE_ASSIGN_OR_RETURN(const auto meta, store->Load(kStartsKey));
  int64_t starts = 0;
  const auto counted = meta.find(kStartsKey);
  if (counted != meta.end() && !absl::SimpleAtoi(counted->second, &starts)) {
    return absl::DataLossError(absl::StrCat(path, ": the record ", kStartsKey, " is damaged"));
  }
  WriteBatch batch;
  batch.puts[kStartsKey] = absl::StrCat(std::max(starts + 1, number));
  batch.puts[kRestoredKey] = absl::StrCat(number);
  return store->Commit(batch);
}

// Makes the future state: a marked copy, in one file.
absl::Status PrepareCopy(const std::string& file, const std::string& copy, int64_t number) {
  {
    PACELINE_ASSIGN_OR_RETURN(SqliteDb from, OpenToRead(file));
    PACELINE_RETURN_IF_ERROR(CheckState(from));
    PACELINE_RETURN_IF_ERROR(CopyDatabase(from, copy, /*durable=*/true, [] { return false; }));
  }
  PACELINE_RETURN_IF_ERROR(MarkRestored(copy, number));
  // `file` still exists for anybody who wants the older form.
  for (int64_t version = 1; version < kStateSchemaVersion; ++version) {
    RemoveWithLog(absl::StrCat(copy, ".v", version));
  }
  return CheckNoLog(copy);
}

// Gives the old state a second name, along with its log, if one is left.
absl::Status Keep(const std::string& state, const std::string& kept) {
  {
    // Writes the log back if the file is sound.
    auto db = SqliteDb::Open(state, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX);
    if (db.ok()) db->ReadNumber("SELECT count(*) FROM sqlite_master").status().IgnoreError();
  }
  for (const char* suffix : {"-wal", ""}) {
    if (!Exists(state + suffix)) continue;
    if (link((state + suffix).c_str(), (kept + suffix).c_str()) != 0) {
      return SystemError("cannot keep the state before as " + kept + suffix);
    }
  }
  PACELINE_RETURN_IF_ERROR(SyncDirectoryOf(kept));
  // The next state must not find a log of another file.
  unlink((state + "-wal").c_str());
  unlink((state + "-shm").c_str());
  return SyncDirectoryOf(state);
}

// Root may restore for a controller that runs as another user, who then must own the state.
absl::Status GiveToOwner(const std::string& directory, const std::string& state) {
  struct stat owner = {};
  if (geteuid() != 0 || stat(directory.c_str(), &owner) != 0) return absl::OkStatus();
  for (const std::string& path : {state, directory + "/lock"}) {
    if (lchown(path.c_str(), owner.st_uid, owner.st_gid) != 0) {
      return SystemError(absl::StrCat("cannot give ", path, " to the owner of ", directory));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> MakeStateIfNone(const std::string& path) {
  if (Exists(path)) {
    struct stat found = {};
    if (stat(path.c_str(), &found) != 0) return Lost(path, "it is a link that leads nowhere");
    if (found.st_size == 0) return Lost(path, "it is empty");
    return false;
  }
  if (Exists(path + "-wal")) return Lost(path, "it is not there, but its log is");
  const std::string made = path + ".new";
  RemoveWithLog(made);
  // The store is closed at once.
  absl::Status status = SqliteStore::Open(made).status();
  if (status.ok()) status = CheckNoLog(made);
  if (status.ok() && std::rename(made.c_str(), path.c_str()) != 0) {
    status = SystemError("cannot rename to " + path);
  }
  if (!status.ok()) {
    RemoveWithLog(made);
    return status;
  }
  PACELINE_RETURN_IF_ERROR(SyncDirectoryOf(path));
  return true;
}

int64_t StateFileBytes(const std::string& directory) {
  int64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const auto size =
        std::filesystem::file_size(absl::StrCat(directory, "/", kStateFileName, suffix), error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

absl::Status CheckStateFile(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(SqliteDb db, OpenToRead(path));
  return CheckState(db);
}

int64_t RestorationNumber(absl::Time now) { return absl::ToUnixSeconds(now) - kBeginOf2020; }

absl::StatusOr<Restoration> RestoreState(const std::string& file, const std::string& directory,
                                         bool force, absl::Time now) {
  PACELINE_ASSIGN_OR_RETURN(const StateLock lock, StateLock::Take(directory));
  const std::string state = absl::StrCat(directory, "/", kStateFileName);
  if (HoldsState(state) && !force) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory, " holds a state: --force has it replaced, and keeps it under another name"));
  }
  Restoration result;
  result.number = RestorationNumber(now);
  if (result.number <= 0) {
    return absl::FailedPreconditionError(absl::StrCat("this machine's clock says ",
                                                      absl::FormatTime(now),
                                                      ": set it first, since numbers that "
                                                      "were not used yet come from it"));
  }
  const std::string copy = state + ".restored";
  absl::Status status = PrepareCopy(file, copy, result.number);
  if (status.ok()) status = GiveToOwner(directory, copy);
  if (status.ok() && HoldsState(state)) {
    result.kept = absl::StrCat(state, ".replaced-",
                               absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()));
    status = Keep(state, result.kept);
  }
  if (status.ok() && std::rename(copy.c_str(), state.c_str()) != 0) {
    status = SystemError("cannot rename to " + state);
  }
  if (!status.ok()) {
    RemoveWithLog(copy);
    return status;
  }
  PACELINE_RETURN_IF_ERROR(SyncDirectoryOf(state));
  return result;
}

}  // namespace paceline
