// Runs one job with a fake daemon and prints the paths of its parts, for tests and benchmarks not
// written in C++.
//
//   run_job --trainer PROGRAM --spec FILE --dir DIR [--threads N] [--restore CHECKPOINT]
//
// FILE is a paceline.v1.JobSpec in protobuf's text format. DIR/log.<rank> gets each rank's
// log. Exit code 0: all ranks exited with 0.
#include <google/protobuf/text_format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/trainer/testing/fake_daemon.h"

int main(int argc, char** argv) {
  paceline::FakeDaemon::Options options;
  options.patience = absl::Minutes(10);
  std::string spec_path;
  CLI::App app("Runs one training job without a daemon.");
  app.add_option("--trainer", options.trainer, "Trainer program")->required();
  app.add_option("--spec", spec_path, "Job spec in protobuf's text format")->required();
  app.add_option("--dir", options.directory, "Existing directory for what the job leaves")
      ->required();
  app.add_option("--threads", options.threads, "Threads of each rank")->capture_default_str();
  std::string restore_from;
  app.add_option("--restore", restore_from, "Directory of the checkpoint to go on from");
  CLI11_PARSE(app, argc, argv);

  std::ostringstream text;
  text << std::ifstream(spec_path).rdbuf();
  paceline::v1::JobSpec spec;
  if (!google::protobuf::TextFormat::ParseFromString(text.str(), &spec)) {
    std::fprintf(stderr, "%s: not a job spec\n", spec_path.c_str());
    return 2;
  }

  paceline::FakeDaemon daemon(options);
  daemon.Launch(spec, /*generation=*/1, restore_from);
  bool good = daemon.Serve();
  for (int rank = 0; rank < spec.ranks(); ++rank) {
    std::ofstream(absl::StrCat(options.directory, "/log.", rank)) << daemon.Log(rank);
    if (daemon.ended(rank) && daemon.exit_code(rank) == 0) continue;
    good = false;
    std::fprintf(stderr, "rank %d: %s\n%s", rank,
                 daemon.status(rank).error().ShortDebugString().c_str(), daemon.Log(rank).c_str());
  }
  return good ? 0 : 1;
}
