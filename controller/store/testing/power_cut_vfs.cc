#include "controller/store/testing/power_cut_vfs.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

namespace paceline {
namespace {

constexpr size_t kSectorBytes = 512;
constexpr char kName[] = "power_cut";

}  // namespace

// SQLite's calls. A file handle of SQLite is a Handle.
struct PowerCutCalls {
  using File = PowerCutVfs::File;
  using Change = PowerCutVfs::Change;

  struct Handle {
    sqlite3_file base;
    PowerCutVfs* disk;
    std::shared_ptr<File>* file;
    std::string* name;
    bool removed_at_close;
  };

  static PowerCutVfs& DiskOf(sqlite3_vfs* vfs) { return *static_cast<PowerCutVfs*>(vfs->pAppData); }
  static PowerCutVfs& DiskOf(sqlite3_file* handle) {
    return *reinterpret_cast<Handle*>(handle)->disk;
  }
  static File& FileOf(sqlite3_file* handle) { return **reinterpret_cast<Handle*>(handle)->file; }

  static int Open(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* handle, int flags,
                  int* out_flags) {
    PowerCutVfs& disk = DiskOf(vfs);
    handle->pMethods = nullptr;
    if (disk.cut_) return SQLITE_IOERR;
    const std::string path = name == nullptr ? "temporary" : name;
    std::shared_ptr<File>& file = disk.files_[path];
    if (file == nullptr || file->removed) {
      if ((flags & SQLITE_OPEN_CREATE) == 0) {
        if (file == nullptr) disk.files_.erase(path);
        return SQLITE_CANTOPEN;
      }
      auto made = std::make_shared<File>();
      made->before = file;
      file = std::move(made);
    }
    auto* opened = reinterpret_cast<Handle*>(handle);
    opened->disk = &disk;
    opened->file = new std::shared_ptr<File>(file);
    opened->name = new std::string(path);
    opened->removed_at_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    opened->base.pMethods = &kMethods;
    if (out_flags != nullptr) *out_flags = flags;
    return SQLITE_OK;
  }

  static int Delete(sqlite3_vfs* vfs, const char* name, int sync_directory) {
    PowerCutVfs& disk = DiskOf(vfs);
    if (!disk.Count()) return SQLITE_IOERR_DELETE;
    const auto found = disk.files_.find(name);
    if (found == disk.files_.end() || found->second->removed) return SQLITE_IOERR_DELETE_NOENT;
    found->second->removed = true;
    if (!found->second->was_there) {
      found->second = std::exchange(found->second->before, nullptr);
      if (found->second == nullptr) disk.files_.erase(found);
    }
    if (sync_directory != 0 && !disk.ignore_syncs_) disk.SyncDirectory();
    return SQLITE_OK;
  }

  static int Access(sqlite3_vfs* vfs, const char* name, int, int* result) {
    PowerCutVfs& disk = DiskOf(vfs);
    if (disk.cut_) return SQLITE_IOERR_ACCESS;
    const auto found = disk.files_.find(name);
    *result = found != disk.files_.end() && !found->second->removed ? 1 : 0;
    return SQLITE_OK;
  }

  static int FullPathname(sqlite3_vfs*, const char* name, int size, char* out) {
    if (static_cast<int>(std::strlen(name)) >= size) return SQLITE_CANTOPEN;
    std::strcpy(out, name);
    return SQLITE_OK;
  }

  // The same numbers in each run.
  static int Randomness(sqlite3_vfs*, int size, char* out) {
    for (int i = 0; i < size; ++i) out[i] = static_cast<char>(i * 37 + 11);
    return size;
  }
  static int Sleep(sqlite3_vfs*, int) { return 0; }
  static int CurrentTime(sqlite3_vfs*, double* julian_day) {
    *julian_day = 2460000.5;
    return SQLITE_OK;
  }
  static int LastError(sqlite3_vfs*, int, char*) { return 0; }

  static int Close(sqlite3_file* handle) {
    auto* opened = reinterpret_cast<Handle*>(handle);
    if (opened->removed_at_close) opened->disk->files_.erase(*opened->name);
    delete opened->file;
    delete opened->name;
    return SQLITE_OK;
  }

  static int Read(sqlite3_file* handle, void* out, int size, sqlite3_int64 offset) {
    if (DiskOf(handle).cut_) return SQLITE_IOERR_READ;
    const std::string& bytes = FileOf(handle).now;
    const auto begin = std::min(static_cast<size_t>(offset), bytes.size());
    const size_t there = std::min(static_cast<size_t>(size), bytes.size() - begin);
    std::memset(out, 0, static_cast<size_t>(size));
    std::memcpy(out, bytes.data() + begin, there);
    return there == static_cast<size_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
  }

  static int Make(sqlite3_file* handle, Change change) {
    File& file = FileOf(handle);
    PowerCutVfs::Apply(change, file.now);
    file.changes.push_back(std::move(change));
    return SQLITE_OK;
  }

  static int Write(sqlite3_file* handle, const void* bytes, int size, sqlite3_int64 offset) {
    PowerCutVfs& disk = DiskOf(handle);
    if (disk.cut_) return SQLITE_IOERR_WRITE;
    if (disk.capacity_ >= 0) {
      int64_t used = 0;
      for (const auto& [name, file] : disk.files_) used += static_cast<int64_t>(file->now.size());
      const int64_t end = offset + size;
      used += std::max<int64_t>(0, end - static_cast<int64_t>(FileOf(handle).now.size()));
      if (used > disk.capacity_) return SQLITE_FULL;
    }
    // A write during which the power is cut may reach the disk, completely or in part.
    const bool on = disk.Count();
    Make(handle,
         {offset, std::string(static_cast<const char*>(bytes), static_cast<size_t>(size)), -1});
    return on ? SQLITE_OK : SQLITE_IOERR_WRITE;
  }

  static int Truncate(sqlite3_file* handle, sqlite3_int64 size) {
    if (!DiskOf(handle).Count()) return SQLITE_IOERR_TRUNCATE;
    return Make(handle, {0, "", size});
  }

  static int Sync(sqlite3_file* handle, int) {
    PowerCutVfs& disk = DiskOf(handle);
    if (!disk.Count()) return SQLITE_IOERR_FSYNC;
    if (disk.ignore_syncs_) return SQLITE_OK;
    File& file = FileOf(handle);
    file.synced = file.now;
    file.changes.clear();
    // SQLite's own file system does this for each new log and journal.
    if (!file.was_there) disk.SyncDirectory();
    return SQLITE_OK;
  }

  static int FileSize(sqlite3_file* handle, sqlite3_int64* size) {
    if (DiskOf(handle).cut_) return SQLITE_IOERR_FSTAT;
    *size = static_cast<sqlite3_int64>(FileOf(handle).now.size());
    return SQLITE_OK;
  }

  // One connection: locks are always free.
  static int Lock(sqlite3_file*, int) { return SQLITE_OK; }
  static int CheckReservedLock(sqlite3_file*, int* result) {
    *result = 0;
    return SQLITE_OK;
  }
  static int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int SectorSize(sqlite3_file*) { return 4096; }
  static int DeviceCharacteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

  static int ShmMap(sqlite3_file* handle, int region, int size, int extend, void volatile** out) {
    std::vector<std::string>& shared = FileOf(handle).shared;
    if (static_cast<size_t>(region) >= shared.size()) {
      if (extend == 0) {
        *out = nullptr;
        return SQLITE_OK;
      }
      // Strings of this size keep their bytes in place when they are moved.
      while (shared.size() <= static_cast<size_t>(region)) {
        shared.emplace_back(static_cast<size_t>(size), '\0');
      }
    }
    *out = shared[static_cast<size_t>(region)].data();
    return SQLITE_OK;
  }
  static int ShmLock(sqlite3_file*, int, int, int) { return SQLITE_OK; }
  static void ShmBarrier(sqlite3_file*) {}
  static int ShmUnmap(sqlite3_file* handle, int) {
    FileOf(handle).shared.clear();
    return SQLITE_OK;
  }

  static const sqlite3_io_methods kMethods;
};

const sqlite3_io_methods PowerCutCalls::kMethods = {
    2,
    Close,
    Read,
    Write,
    Truncate,
    Sync,
    FileSize,
    Lock,
    Lock,
    CheckReservedLock,
    FileControl,
    SectorSize,
    DeviceCharacteristics,
    ShmMap,
    ShmLock,
    ShmBarrier,
    ShmUnmap,
    nullptr,
    nullptr,
};

PowerCutVfs::PowerCutVfs() {
  vfs_.iVersion = 1;
  vfs_.szOsFile = sizeof(PowerCutCalls::Handle);
  vfs_.mxPathname = 512;
  vfs_.zName = kName;
  vfs_.pAppData = this;
  vfs_.xOpen = PowerCutCalls::Open;
  vfs_.xDelete = PowerCutCalls::Delete;
  vfs_.xAccess = PowerCutCalls::Access;
  vfs_.xFullPathname = PowerCutCalls::FullPathname;
  vfs_.xRandomness = PowerCutCalls::Randomness;
  vfs_.xSleep = PowerCutCalls::Sleep;
  vfs_.xCurrentTime = PowerCutCalls::CurrentTime;
  vfs_.xGetLastError = PowerCutCalls::LastError;
  if (sqlite3_vfs_register(&vfs_, /*makeDflt=*/1) != SQLITE_OK) std::abort();
}

PowerCutVfs::~PowerCutVfs() { sqlite3_vfs_unregister(&vfs_); }

void PowerCutVfs::Format() {
  files_.clear();
  cut_ = false;
  capacity_ = -1;
  CutAt(0);
}

void PowerCutVfs::CutAt(int64_t call) {
  calls_ = 0;
  cut_at_ = call;
}

bool PowerCutVfs::Count() {
  if (cut_) return false;
  cut_ = ++calls_ == cut_at_;
  return !cut_;
}

std::string* PowerCutVfs::Contents(const std::string& name) {
  const auto found = files_.find(name);
  return found == files_.end() || found->second->removed ? nullptr : &found->second->now;
}

void PowerCutVfs::SyncDirectory() {
  for (auto i = files_.begin(); i != files_.end();) {
    i->second->was_there = true;
    i->second->before.reset();
    i = i->second->removed ? files_.erase(i) : std::next(i);
  }
}

void PowerCutVfs::Apply(const Change& change, std::string& contents) {
  if (change.truncate_to >= 0) {
    contents.resize(static_cast<size_t>(change.truncate_to));
    return;
  }
  const auto begin = static_cast<size_t>(change.offset);
  if (contents.size() < begin + change.bytes.size()) contents.resize(begin + change.bytes.size());
  contents.replace(begin, change.bytes.size(), change.bytes);
}

void PowerCutVfs::Survive(File& file, Survives survives, std::mt19937& random) {
  std::string contents = file.synced;
  const auto coin = [&random] { return random() % 2 == 0; };
  for (const Change& change : file.changes) {
    if (survives == Survives::kNothing) break;
    const bool whole =
        survives == Survives::kAll || change.truncate_to >= 0 || survives == Survives::kSomeWrites;
    if (whole) {
      if (survives == Survives::kAll || coin()) Apply(change, contents);
      continue;
    }
    for (size_t at = 0; at < change.bytes.size(); at += kSectorBytes) {
      const Change sector{change.offset + static_cast<int64_t>(at),
                          change.bytes.substr(at, kSectorBytes), -1};
      if (coin()) Apply(sector, contents);
    }
  }
  file.now = file.synced = std::move(contents);
  file.changes.clear();
  file.shared.clear();
}

void PowerCutVfs::PowerOn(Survives survives, uint32_t seed) {
  std::mt19937 random(seed);
  for (auto i = files_.begin(); i != files_.end();) {
    const bool all = survives == Survives::kAll;
    const bool some = survives != Survives::kNothing && random() % 2 == 0;
    // An unsynced creation or removal of a name may have happened or not.
    if (!i->second->was_there && !all && !some) {
      i->second = std::exchange(i->second->before, nullptr);
    } else if (i->second->removed && (all || some)) {
      i->second.reset();
    }
    if (i->second == nullptr) {
      i = files_.erase(i);
      continue;
    }
    File& file = *i->second;
    Survive(file, survives, random);
    file.removed = false;
    file.was_there = true;
    file.before.reset();
    ++i;
  }
  cut_ = false;
  CutAt(0);
}

}  // namespace paceline
