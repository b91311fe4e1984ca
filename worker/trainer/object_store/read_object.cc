// Reads an object of a store as trainers do, and prints the SHA-256 of its bytes.
//
//   read_object --url URL --allow PREFIX --cache DIR --cache-bytes N [--block-bytes N] [--patience
//   S]
//
// Credentials are in the environment. Exit code 1: the error is on stderr.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tls/key_and_request.h"
#include "worker/trainer/object_store/object_store.h"

namespace paceline {
namespace {

absl::StatusOr<std::string> ReadAll(const ObjectStore::Options& options, const std::string& url) {
  const absl::StatusOr<std::shared_ptr<ObjectStore>> store = ObjectStore::Open(options);
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::shared_ptr<const RangeSource>> source = (*store)->OpenObject(url);
  if (!source.ok()) return source.status();
  std::string bytes((*source)->size(), '\0');
  const absl::Status read = (*source)->Read(0, bytes.size(), &bytes[0]);
  if (!read.ok()) return read;
  return Sha256Hex(bytes);
}

int Main(int argc, char** argv) {
  ObjectStore::Options options;
  std::string url;
  double patience_s = 120;
  CLI::App app("Reads an object of a store.");
  app.add_option("--url", url)->required();
  app.add_option("--allow", options.allowed)->required();
  app.add_option("--cache", options.cache_directory);
  app.add_option("--cache-bytes", options.cache_bytes);
  app.add_option("--block-bytes", options.block_bytes);
  app.add_option("--patience", patience_s);
  CLI11_PARSE(app, argc, argv);
  options.patience = absl::Seconds(patience_s);
  const absl::StatusOr<std::string> hash = ReadAll(options, url);
  if (hash.ok()) {
    std::printf("%s\n", hash->c_str());
    return 0;
  }
  std::fprintf(stderr, "%s\n", hash.status().ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
