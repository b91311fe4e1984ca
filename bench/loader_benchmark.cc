// How many samples a second BatchLoader reads from a file for a consumer that does nothing with
// them, and how many memcpy copies unchanged from the mapped file in the same order.
// Prints one JSON object: {"loader": samples per second, "memcpy": samples per second}; of an
// object of a store, whose credentials are in the environment, without memcpy.
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/core/object_url.h"
#include "common/core/status_macros.h"
#include "common/mapped_file/mapped_file.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/data/batch_loader.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/data/open_dataset.h"

namespace paceline {
namespace {

struct Options {
  std::string file;
  std::string object_cache;  // Of an object.
  bool sequential = false;
  int64_t sequence_length = 1024;
  int64_t batch = 32;
  int threads = 1;
  double seconds = 1;
  int64_t most_batches = 0;  // Of a measurement; 0: any number.
};

constexpr int kSettlingBatches = 20;

// Samples per second of calls that make one batch each.
absl::StatusOr<double> Rate(const Options& options, const std::function<absl::Status()>& next) {
  for (int i = 0; i < kSettlingBatches; ++i) PACELINE_RETURN_IF_ERROR(next());
  const absl::Time start = absl::Now();
  absl::Duration elapsed;
  int64_t batches = 0;
  const auto goes_on = [&] {
    return elapsed < absl::Seconds(options.seconds) &&
           (options.most_batches == 0 || batches < options.most_batches);
  };
  while (goes_on()) {
    PACELINE_RETURN_IF_ERROR(next());
    ++batches;
    elapsed = absl::Now() - start;
  }
  return static_cast<double>(batches * options.batch) / absl::ToDoubleSeconds(elapsed);
}

// Bytes of a sample in the file.
size_t SampleBytes(const Dataset& dataset) {
  const SampleFormat format = dataset.format();
  if (format.image) return format.image->image_bytes();
  return static_cast<size_t>(*format.sequence_length) * sizeof(uint16_t);
}

absl::Status Measure(const Options& options) {
  DataConfig config;
  config.sequence_length = options.sequence_length;
  config.shuffle = !options.sequential;
  config.object_stores = {{"s3://"}, options.object_cache, int64_t{1} << 30};
  PACELINE_ASSIGN_OR_RETURN(const auto dataset, OpenDataset("--file", options.file, config));
  BatchLoader::Options loading;
  loading.sampler.samples = dataset->size();
  loading.sampler.batch = options.batch;
  loading.sampler.shuffle = !options.sequential;
  loading.threads = options.threads;
  double loaded = 0;
  {
    BatchLoader loader(*dataset, loading);
    PACELINE_ASSIGN_OR_RETURN(loaded, Rate(options, [&loader] { return loader.Next().status(); }));
  }

  if (IsObjectUrl(options.file)) {
    nlohmann::json result;
    result["loader"] = loaded;
    std::cout << result << std::endl;
    return absl::OkStatus();
  }
  PACELINE_ASSIGN_OR_RETURN(const MappedFile file,
                            MappedFile::Open(options.file, MappedFile::Access::kReadOnDemand));
  const size_t bytes = SampleBytes(*dataset);
  // The samples reach to the end of the file, except a rest that fills no sample.
  const size_t samples = static_cast<size_t>(dataset->size()) * bytes;
  const char* const start = static_cast<const char*>(file.data()) + (file.size() - samples);
  Sampler sampler(loading.sampler);
  std::vector<int64_t> indices;
  std::vector<char> copy(static_cast<size_t>(options.batch) * bytes);
  PACELINE_ASSIGN_OR_RETURN(const double copied, Rate(options, [&] {
                              sampler.Next(&indices);
                              char* out = copy.data();
                              for (int64_t index : indices) {
                                std::memcpy(out, start + static_cast<size_t>(index) * bytes, bytes);
                                out += bytes;
                              }
                              benchmark::DoNotOptimize(copy.data());
                              benchmark::ClobberMemory();
                              return absl::OkStatus();
                            }));
  std::cout << nlohmann::json{{"loader", loaded}, {"memcpy", copied}} << std::endl;
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures the data pipeline.");
  app.add_option("--file", options.file, "an image shard or token file, or s3://BUCKET/KEY")
      ->required();
  app.add_option("--object-cache", options.object_cache, "directory for blocks of an object");
  app.add_flag("--sequential", options.sequential, "in the order of the file");
  app.add_option("--sequence-length", options.sequence_length, "of a token file");
  app.add_option("--batch", options.batch, "samples of a batch");
  app.add_option("--threads", options.threads, "of the loader");
  app.add_option("--seconds", options.seconds, "of each of the two measurements");
  app.add_option("--most-batches", options.most_batches, "that end a measurement sooner");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Measure(options);
  if (!status.ok()) std::cerr << "loader_benchmark: " << status << std::endl;
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
