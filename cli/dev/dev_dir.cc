#include "cli/dev/dev_dir.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/atomic_file/atomic_file.h"
#include "common/state_lock/state_lock.h"
#include "nlohmann/json.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// FNV-1a: stable over runs and builds, which absl's hash is not.
uint32_t HashOf(absl::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

// Reads a JSON object; an empty one if the file is missing or is no object.
nlohmann::json ReadObject(const std::string& path) {
  std::ifstream in(path);
  nlohmann::json object = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : nlohmann::json::object();
}

std::string TextOf(const nlohmann::json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

int64_t NumberOf(const nlohmann::json& object, const char* key, int64_t fallback) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number_integer() ? at->get<int64_t>() : fallback;
}

}  // namespace

std::string DevDir::RuntimeDir() const {
  return absl::StrFormat("/dev/shm/paceline-%08x", HashOf(root));
}

std::vector<std::string> DevDir::Workers() const {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root + "/workers", none)) {
    if (entry.is_directory(none)) names.push_back(entry.path().filename().string());
  }
  // Puts w2 before w10.
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return names;
}

pid_t DaemonPlace::Pid() const { return StateLockHolder(state_dir); }

DaemonPlace ControllerPlace(const DevDir& dir) {
  return {"controller", dir.root + "/controller", dir.root + "/controller.json",
          dir.LogDir() + "/controller.log"};
}

DaemonPlace WorkerPlace(const DevDir& dir, const std::string& worker) {
  return {worker, absl::StrCat(dir.root, "/workers/", worker),
          absl::StrCat(dir.root, "/workers/", worker, ".json"),
          absl::StrCat(dir.LogDir(), "/", worker, ".log")};
}

DaemonAddresses ReadAddresses(const DaemonPlace& place) {
  const nlohmann::json object = ReadObject(place.address_file);
  return {static_cast<pid_t>(NumberOf(object, "pid", 0)), TextOf(object, "grpc"),
          TextOf(object, "http")};
}

DevSettings ReadSettings(const DevDir& dir) {
  const nlohmann::json object = ReadObject(dir.SettingsFile());
  DevSettings settings;
  settings.workers = static_cast<int>(NumberOf(object, "workers", settings.workers));
  settings.slots = static_cast<int>(NumberOf(object, "slots", settings.slots));
  return settings;
}

absl::Status WriteSettings(const DevDir& dir, const DevSettings& settings) {
  const nlohmann::json object = {{"workers", settings.workers}, {"slots", settings.slots}};
  const std::string text = object.dump() + "\n";
  return WriteFileAtomically(dir.SettingsFile(), {text});
}

DevDir DefaultDevDir(const std::function<std::string(const char*)>& variable) {
  const std::string named = variable("PACELINE_DEV_DIR");
  if (!named.empty()) return DevDirAt(named);
  const std::string home = variable("HOME");
  return DevDirAt(absl::StrCat(home.empty() ? "/tmp" : home, "/.paceline/dev"));
}

DevDir DevDirAt(const std::string& path) {
  std::error_code none;
  fs::path whole = fs::weakly_canonical(fs::absolute(path, none), none);
  if (!whole.has_filename()) whole = whole.parent_path();
  return {whole.string()};
}

std::string RunningDevController(const DevDir& dir) {
  const DaemonPlace place = ControllerPlace(dir);
  const DaemonAddresses addresses = ReadAddresses(place);
  return addresses.pid != 0 && addresses.pid == place.Pid() ? addresses.grpc : "";
}

}  // namespace paceline
