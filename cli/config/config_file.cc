#include "cli/config/config_file.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/text/nearest.h"
#include "cli/text/sanitize.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/host_port.h"
#include "common/core/status_macros.h"
#include "common/leader_address.h"
#include "yaml-cpp/yaml.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = 1 << 20;
constexpr size_t kLongestName = 64;

absl::Status Problem(const std::string& path, const YAML::Mark& mark, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ":", mark.line + 1, ":", mark.column + 1, ": ", what));
}

absl::Status CheckOneAddress(const std::string& server) {
  const auto refused = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", SanitizeLine(server), "\" is no address of a controller: ", why));
  };
  if (absl::StrContains(server, "://") || absl::StrContains(server, '/')) {
    return refused("give HOST or HOST:PORT, without http:// and path");
  }
  const bool printable = std::all_of(server.begin(), server.end(),
                                     [](unsigned char c) { return std::isgraph(c) != 0; });
  if (server.empty() || !printable || server[0] == '-') return refused("give HOST or HOST:PORT");
  const absl::StatusOr<HostPort> at = ParseHostPort(WithPort(server, 1));
  if (at.ok() && at->host.empty()) return refused("give HOST or HOST:PORT");
  if (at.ok() && at->port > 0) return absl::OkStatus();
  return refused(
      "a port is a number from 1 to 65535, and an IPv6 address stands in brackets before it, as in "
      "[::1]:7450");
}

// Reads the value of a key that takes a single text.
absl::StatusOr<std::string> TextOf(const YAML::Node& value, const std::string& key,
                                   const std::string& path) {
  if (value.IsScalar()) return value.Scalar();
  return Problem(path, value.Mark(), absl::StrCat(key, " takes one value"));
}

absl::Status CheckMap(const YAML::Node& node, const std::string& what, const std::string& path) {
  if (node.IsMap()) return absl::OkStatus();
  return Problem(path, node.Mark(), absl::StrCat(what, " must be a map: KEY: VALUE"));
}

absl::Status Unknown(const YAML::Node& key, const std::vector<std::string>& known,
                     const std::string& path) {
  const std::string word = key.IsScalar() ? key.Scalar() : "";
  const std::string meant = Nearest(word, known);
  return Problem(
      path, key.Mark(),
      absl::StrCat("unknown key \"", Shortened(SanitizeLine(word), 60), "\"",
                   meant.empty() ? "" : absl::StrCat("; did you mean \"", meant, "\"?")));
}

// Sets the value of `key` in a context.
absl::Status SetValue(const YAML::Node& value, const std::string& key, const std::string& path,
                      CliContext* context) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, TextOf(value, key, path));
  if (key == "plaintext") {
    if (text != "true" && text != "false") {
      return Problem(path, value.Mark(), "plaintext is true or false");
    }
    context->plaintext = text == "true";
    return absl::OkStatus();
  }
  if (key == "server") {
    const absl::Status sound = CheckServerAddress(text);
    if (!sound.ok()) return Problem(path, value.Mark(), std::string(sound.message()));
  }
  (key == "server"        ? context->server
   : key == "ca"          ? context->ca
   : key == "certificate" ? context->certificate
   : key == "key"         ? context->key
                          : context->token_file) = text;
  return absl::OkStatus();
}

// Whether a context's identity is complete or absent.
bool IsWhole(const CliContext& context) {
  const bool certified = !context.certificate.empty() || !context.key.empty();
  if (context.ca.empty()) return !certified && context.token_file.empty();
  if (context.plaintext) return false;
  if (!context.token_file.empty()) return !certified;
  return !context.certificate.empty() && !context.key.empty();
}

absl::StatusOr<CliContext> ContextOf(const YAML::Node& node, const std::string& name,
                                     const std::string& path) {
  const std::vector<std::string> known = {"server", "ca",         "certificate",
                                          "key",    "token_file", "plaintext"};
  PACELINE_RETURN_IF_ERROR(CheckMap(node, absl::StrCat("context ", name), path));
  CliContext context;
  for (const auto& entry : node) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return Unknown(entry.first, known, path);
    }
    PACELINE_RETURN_IF_ERROR(SetValue(entry.second, key, path, &context));
  }
  if (context.server.empty()) {
    return Problem(path, node.Mark(), absl::StrCat("context ", name, " has no server"));
  }
  if (!IsWhole(context)) {
    return Problem(path, node.Mark(),
                   absl::StrCat("context ", name,
                                " needs all of ca, certificate and key, or ca and token_file, "
                                "without plaintext, or none of them"));
  }
  return context;
}

absl::StatusOr<CliConfig> ConfigOf(const YAML::Node& document, const std::string& path) {
  CliConfig config;
  if (document.IsNull()) return config;
  PACELINE_RETURN_IF_ERROR(CheckMap(document, "the file", path));
  for (const auto& entry : document) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (key == "current") {
      PACELINE_ASSIGN_OR_RETURN(config.current, TextOf(entry.second, key, path));
    } else if (key == "contexts") {
      if (entry.second.IsNull()) continue;
      PACELINE_RETURN_IF_ERROR(CheckMap(entry.second, key, path));
      for (const auto& context : entry.second) {
        const std::string name = context.first.IsScalar() ? context.first.Scalar() : "";
        const absl::Status sound = CheckContextName(name);
        if (!sound.ok()) return Problem(path, context.first.Mark(), std::string(sound.message()));
        PACELINE_ASSIGN_OR_RETURN(config.contexts[name], ContextOf(context.second, name, path));
      }
    } else {
      return Unknown(entry.first, {"current", "contexts"}, path);
    }
  }
  return config;
}

std::string TextOf(const CliConfig& config) {
  YAML::Emitter text;
  text << YAML::BeginMap;
  if (!config.current.empty()) {
    text << YAML::Key << "current" << YAML::Value << YAML::DoubleQuoted << config.current;
  }
  text << YAML::Key << "contexts" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, context] : config.contexts) {
    text << YAML::Key << YAML::DoubleQuoted << name << YAML::Value << YAML::Flow << YAML::BeginMap
         << YAML::Key << "server" << YAML::Value << YAML::DoubleQuoted << context.server;
    for (const auto& [key, value] :
         {std::pair("ca", &context.ca), std::pair("certificate", &context.certificate),
          std::pair("key", &context.key), std::pair("token_file", &context.token_file)}) {
      if (value->empty()) continue;
      text << YAML::Key << key << YAML::Value << YAML::DoubleQuoted << *value;
    }
    if (context.plaintext) text << YAML::Key << "plaintext" << YAML::Value << true;
    text << YAML::EndMap;
  }
  text << YAML::EndMap << YAML::EndMap;
  return absl::StrCat(text.c_str(), "\n");
}

}  // namespace

std::string ConfigPath(const std::function<std::string(const char*)>& variable) {
  const std::string named = variable("PACELINE_CONFIG");
  if (!named.empty()) return named;
  const std::string config = variable("XDG_CONFIG_HOME");
  // The XDG specification says to ignore relative paths.
  if (absl::StartsWith(config, "/")) return absl::StrCat(config, "/paceline/config.yaml");
  const std::string home = variable("HOME");
  return home.empty() ? "" : absl::StrCat(home, "/.config/paceline/config.yaml");
}

std::string DefaultTlsDir(const std::function<std::string(const char*)>& variable) {
  const std::string config = ConfigPath(variable);
  return config.empty() ? "" : (fs::path(config).parent_path() / "tls").string();
}

absl::StatusOr<CliConfig> ReadConfig(const std::string& path) {
  if (path.empty()) return CliConfig();
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return CliConfig();
  if (error == std::errc::permission_denied) {
    return absl::PermissionDeniedError(absl::StrCat(path, " cannot be read: ", error.message()));
  }
  if (status.type() == fs::file_type::directory) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is a directory; $PACELINE_CONFIG names a file"));
  }
  std::ifstream in(path);
  if (!in) {
    const std::string what = absl::StrCat(path, " cannot be read: ", std::strerror(errno));
    return errno == EACCES ? absl::PermissionDeniedError(what)
                           : absl::FailedPreconditionError(what);
  }
  std::string text(kMostBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is larger than 1 MiB: is it the file?"));
  }
  return ParseConfig(text, path);
}

absl::StatusOr<CliConfig> ParseConfig(const std::string& text, const std::string& path) {
  try {
    return ConfigOf(YAML::Load(text), path);
  } catch (const YAML::Exception& e) {
    return Problem(path, e.mark, e.msg);
  }
}

absl::Status WriteConfig(const std::string& path, const CliConfig& config) {
  if (path.empty()) {
    return absl::FailedPreconditionError(
        "neither $PACELINE_CONFIG nor $HOME is set: nowhere to keep contexts");
  }
  std::error_code error;
  const fs::path target =
      fs::is_symlink(path, error) ? fs::weakly_canonical(path, error) : fs::path(path);
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), error);
  const std::string text = TextOf(config);
  const absl::Status written = WriteFileAtomically(target.string(), {absl::string_view(text)});
  // In this program, Unavailable is for servers.
  return absl::IsUnavailable(written) ? absl::FailedPreconditionError(written.message()) : written;
}

absl::Status CheckContextName(const std::string& name) {
  const auto usual = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  const bool sound = !name.empty() && name.size() <= kLongestName &&
                     std::isalnum(static_cast<unsigned char>(name[0])) != 0 &&
                     std::all_of(name.begin(), name.end(), usual);
  if (sound) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", SanitizeLine(name),
                   "\" cannot be the name of a context: give 1 to 64 letters, digits and . _ -, "
                   "beginning with a letter or digit"));
}

absl::Status CheckServerAddress(const std::string& servers) {
  const std::vector<std::string> addresses = SplitAddresses(servers);
  for (const std::string& address : addresses) {
    PACELINE_RETURN_IF_ERROR(CheckOneAddress(address));
  }
  return addresses.empty() ? CheckOneAddress("") : absl::OkStatus();
}

absl::StatusOr<CliContext> FindContext(const CliConfig& config, const std::string& name,
                                       const std::string& path) {
  const auto found = config.contexts.find(name);
  if (found != config.contexts.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, context] : config.contexts) names.push_back(known);
  const std::string meant = Nearest(name, names);
  return absl::NotFoundError(
      absl::StrCat("there is no context \"", SanitizeLine(name), "\" in ", path,
                   meant.empty() ? "" : absl::StrCat("; did you mean \"", meant, "\"?"),
                   names.empty() ? " (`paceline context add NAME HOST` adds one)"
                                 : " (`paceline context list` shows those that there are)"));
}

}  // namespace paceline
