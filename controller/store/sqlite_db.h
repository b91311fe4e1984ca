// A connection to an SQLite file, with Abseil's errors.
//
// Errors, with a line that names the file: PermissionDenied: cannot be opened or written; DataLoss:
// damaged, or not a database; ResourceExhausted: no space left; otherwise Unavailable.
//
// Thread-compatible.
#ifndef CONTROLLER_STORE_SQLITE_DB_H_
#define CONTROLLER_STORE_SQLITE_DB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace paceline {

class SqliteDb {
 private:
  struct Close {
    void operator()(sqlite3* db) const;
    void operator()(sqlite3_stmt* statement) const;
  };

 public:
  using Statement = std::unique_ptr<sqlite3_stmt, Close>;

  // `flags`: SQLITE_OPEN_... from sqlite3.h.
  static absl::StatusOr<SqliteDb> Open(const std::string& path, int flags);

  sqlite3* get() const { return db_.get(); }
  const std::string& path() const { return path_; }

  absl::Status Execute(const std::string& sql);
  // Returns the first column of the first row.
  absl::StatusOr<int64_t> ReadNumber(const std::string& sql);
  absl::StatusOr<std::string> ReadText(const std::string& sql);
  absl::StatusOr<Statement> Prepare(const std::string& sql);

  // Returns the error of the last call, which returned `code`.
  absl::Status Error(int code) const;

 private:
  SqliteDb(std::string path, sqlite3* db);

  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
};

// Copies the present state of `from` to the file `to`, replacing it, without holding up writers of
// `from`. The copy is one file, complete without a log. Asks every few megabytes whether it
// `is_cancelled`, and then returns Cancelled. `durable`: the copy survives a power cut afterwards;
// otherwise it is faster.
absl::Status CopyDatabase(SqliteDb& from, const std::string& to, bool durable,
                          const std::function<bool()>& is_cancelled);

}  // namespace paceline

#endif  // CONTROLLER_STORE_SQLITE_DB_H_
