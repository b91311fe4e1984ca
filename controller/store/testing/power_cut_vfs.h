// A disk for SQLite that loses its power, for tests of the state store.
//
// Files are in memory. Unsynced writes are kept apart, as in the caches of a system and a disk.
// Each write, truncation, sync and removal counts. The power is cut at a chosen call: from then on
// every call fails. PowerOn then restores the disk in a state that is possible after that: of the
// unsynced changes nothing survives, or all, or parts in any order, down to sectors.
//
// It does not simulate synced bytes that change (corruption_test.cc does), or damage to sectors
// beside a written one (SQLite is told that there is none, as for real disks).
//
// Thread-compatible. One connection to a file at a time.
#ifndef CONTROLLER_STORE_TESTING_POWER_CUT_VFS_H_
#define CONTROLLER_STORE_TESTING_POWER_CUT_VFS_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace paceline {

class PowerCutVfs {
 public:
  // What survives of unsynced changes.
  enum class Survives { kNothing, kAll, kSomeWrites, kSomeSectors };

  // While it exists, it is SQLite's default file system.
  PowerCutVfs();
  ~PowerCutVfs();
  PowerCutVfs(const PowerCutVfs&) = delete;
  PowerCutVfs& operator=(const PowerCutVfs&) = delete;

  // Empties the disk.
  void Format();
  // Cuts the power at the `call`-th call from now, 1-based; 0: never.
  void CutAt(int64_t call);
  // Restores the power. All that is on the disk then counts as synced.
  void PowerOn(Survives survives, uint32_t seed);

  // A planted bug: syncs do nothing but report success, as with PRAGMA synchronous = OFF.
  void IgnoreSyncs(bool ignore) { ignore_syncs_ = ignore; }
  // Limits the bytes of all files; writes beyond find the disk full. Negative: no limit.
  void SetCapacity(int64_t bytes) { capacity_ = bytes; }

  int64_t calls() const { return calls_; }
  bool is_cut() const { return cut_; }
  // Null: there is no such file.
  std::string* Contents(const std::string& name);

 private:
  friend struct PowerCutCalls;

  struct Change {
    int64_t offset = 0;
    std::string bytes;
    int64_t truncate_to = -1;  // If not negative, this is a truncation.
  };
  struct File {
    std::string now;
    std::string synced;
    std::vector<Change> changes;  // They turn `synced` into `now`.
    bool removed = false;
    // A removed file of the same name; it comes back if the directory was not synced since.
    std::shared_ptr<File> before;
    bool was_there = false;           // In the directory at its last sync.
    std::vector<std::string> shared;  // Regions of the log's index.
  };

  // Counts a call. Returns false if the power is off.
  bool Count();
  // Makes the present names durable.
  void SyncDirectory();
  static void Apply(const Change& change, std::string& contents);
  void Survive(File& file, Survives survives, std::mt19937& random);

  sqlite3_vfs vfs_ = {};
  std::map<std::string, std::shared_ptr<File>> files_;
  int64_t calls_ = 0;
  int64_t cut_at_ = 0;
  bool cut_ = false;
  bool ignore_syncs_ = false;
  int64_t capacity_ = -1;
};

}  // namespace paceline

#endif  // CONTROLLER_STORE_TESTING_POWER_CUT_VFS_H_
