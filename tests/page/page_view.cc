#include "tests/page/page_view.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "controller/core/steps/step_code.h"
#include "controller/page/page.h"

namespace paceline {

using nlohmann::json;

namespace {

json CurveOf(const std::string& name, bool reported, int points) {
  json curve = {{"name", name}, {"reported", reported}, {"width", 4}};
  for (int i = 1; i <= points; ++i) {
    curve["steps"].push_back(4 * i);
    curve["least"].push_back(0.5 / i);
    curve["mean"].push_back(i == 2 ? json() : json(1.0 / i));
    curve["most"].push_back(2.0 / i);
  }
  return curve;
}

}  // namespace

json EmptyCluster() {
  return {{"version", "1.2.3"},
          {"time", 1700000000},
          {"job_counts", json::object()},
          {"node_counts", json::object()},
          {"sums", {{"ranks", 0}, {"slow", 0}, {"slots", 0}, {"slots_used", 0}}},
          {"jobs", json::array()},
          {"jobs_left_out", json::object()},
          {"nodes", json::array()},
          {"nodes_left_out", 0},
          {"decisions", json::array()},
          {"automation", {{"paused", false}, {"owner", ""}, {"reason", ""}}}};
}

json JobOf(const std::string& id, const std::string& text) {
  return {{"id", id},
          {"name", text},
          {"labels", json::array({text})},
          {"label_count", 3},
          {"state", "running"},
          {"reason", text},
          {"save_trouble", ""},
          {"ranks", 4},
          {"generation", 1},
          {"restarts", 0},
          {"step", 120},
          {"steps", 1000},
          {"ended", nullptr},
          {"loss", 0.5},
          {"samples_per_s", 1234.5},
          {"tokens_per_s", nullptr},
          {"mfu", nullptr},
          {"step_s", 0.25},
          {"wait_share", 0.1},
          {"recent_step_s", {0.2, nullptr, 0.3, 0.25}},
          {"slow",
           {{{"kind", "persistent"},
             {"cause", "compute"},
             {"rank", 2},
             {"node", text},
             {"slowdown", 1.5},
             {"lost_share", 0.2}}}},
          {"slow_count", 1}};
}

json FullCluster(const std::string& text) {
  json state = EmptyCluster();
  state["job_counts"]["running"] = 1;
  state["node_counts"]["draining"] = 1;
  state["sums"] = {{"ranks", 4}, {"slow", 1}, {"slots", 4}, {"slots_used", 2}};
  state["jobs"].push_back(JobOf("job-1", text));
  state["nodes"].push_back({{"name", text},
                            {"state", "draining"},
                            {"reason", text},
                            {"slots", 4},
                            {"slots_used", 2},
                            {"gpus", 0},
                            {"gpus_used", 0},
                            {"jobs", {text}}});
  state["decisions"].push_back({{"id", "job-1/d1"},
                                {"job_name", text},
                                {"what", text},
                                {"why", text},
                                {"state", "advised"},
                                {"outcome", text},
                                {"time", 1699999990}});
  state["automation"] = {{"paused", true}, {"owner", text}, {"reason", text}};
  return state;
}

json JobDetail(const std::string& text, int ranks, int steps) {
  json rows = json::array();
  std::string cells;
  for (int rank = 0; rank < ranks; ++rank) {
    rows.push_back({{"first_rank", rank}, {"nodes", {text}}});
    for (int step = 0; step < steps; ++step) {
      for (const double seconds : {rank == 2 ? 0.2 : 0.1, 0.21}) {
        const StepCode code = EncodeSeconds(seconds);
        cells.push_back(static_cast<char>(code & 0xff));
        cells.push_back(static_cast<char>(code >> 8));
      }
    }
  }
  return {{"id", "job-1"},
          {"known", true},
          {"labels", json::array({text, "team=vision"})},
          {"description", text},
          {"strategy", absl::StrCat("hsgd 2:2,8:all:int8 ", text)},
          {"lineage",
           {{"directory", text},
            {"ancestors",
             json::array({{{"id", "job-0"}, {"name", text}, {"known", true}, {"step", 40}}})},
            {"children",
             json::array({{{"id", "job-2"}, {"name", "next"}, {"known", true}, {"step", 80}}})},
            {"child_count", 3}}},
          {"artifacts", json::array({{{"name", text},
                                      {"path", "/out"},
                                      {"node", "w0"},
                                      {"step", 40},
                                      {"bytes", 20},
                                      {"sha256", "ab12"},
                                      {"error", ""}}})},
          {"job", JobOf("job-1", text)},
          {"table",
           {{"ranks", ranks},
            {"ranks_per_row", 1},
            {"first_step", 100},
            {"steps", steps},
            {"median_own_s", 0.1},
            {"rows", rows},
            {"cells", absl::Base64Escape(cells)}}},
          {"median_own_s", 0.1},
          {"rank_count", ranks},
          {"ranks",
           {{{"rank", 2},
             {"node", text},
             {"state", "running"},
             {"phase", "forward"},
             {"step", 120},
             {"own_s", 0.2},
             {"wait_share", 0.05},
             {"data_wait_share", 0},
             {"memory", 1 << 30},
             {"mfu", nullptr},
             {"last_heard", nullptr},
             {"verdict",
              {{"kind", "persistent"},
               {"cause", "compute"},
               {"rank", 2},
               {"node", text},
               {"slowdown", 2},
               {"lost_share", 0.5}}}}}},
          {"events", {{{"id", 1}, {"time", 1699999000}, {"warning", true}, {"what", text}}}},
          {"series",
           {{"step_s", {0.2, 0.21, 0.2}},
            {"wait_share", {0.5, 0.5, 0.4}},
            {"loss", {1, 0.7, 0.5}},
            {"samples_per_s", {1000, 1100, 1234}},
            {"tokens_per_s", {nullptr, nullptr, nullptr}}}}};
}

json RunOf(const std::string& id, const std::string& text, int points) {
  return {{"id", id},
          {"known", true},
          {"name", text},
          {"ended", false},
          {"since", 1700000000},
          {"since_step", 3},
          {"left_out", false},
          {"curves", {CurveOf("acc", true, points), CurveOf("loss", false, points)}},
          {"marks",
           {{{"id", 1},
             {"step", 8},
             {"time", 1700000000},
             {"kind", "membership"},
             {"warning", true},
             {"what", text}},
            {{"id", 2},
             {"step", 40},
             {"time", 1700000000},
             {"kind", "checkpoint"},
             {"warning", false},
             {"what", text}}}}};
}

void PageViewTest::Serve(const std::string& address) {
  const HttpServer::Routes routes = {
      {"/", [](const HttpServer::Query&) { return Page::Html(); }},
      {"/curves", [this](const HttpServer::Query& query) { return AnswerRun(query); }}};
  const HttpServer::Streams streams = {{"/events", [this](const HttpServer::Query& query) {
                                          const auto job = query.find("job");
                                          return feed_.Listen(job == query.end() ? ""
                                                                                 : job->second);
                                        }}};
  auto server = HttpServer::Start(address, routes, streams);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
}

HttpResponse PageViewTest::AnswerRun(const HttpServer::Query& query) {
  const absl::MutexLock lock(&mutex_);
  const auto run = runs_.find(query.at("job"));
  if (run == runs_.end()) return {503, "text/plain", "busy"};
  return {200, "application/json", run->second.dump()};
}

void PageViewTest::PublishRun(const json& run) {
  const absl::MutexLock lock(&mutex_);
  runs_[run["id"].get<std::string>()] = run;
}

void PageViewTest::Publish(const json& cluster, const json& job) {
  PageFeed::State state{cluster.dump(), {}};
  if (!job.is_null()) state.jobs[job["id"].get<std::string>()] = job.dump();
  feed_.Publish(std::move(state));
}

void PageViewTest::Open(const std::string& path) {
  browser_.Open("http://" + server_->address() + path);
  browser_.WaitUntil("document.getElementById('connection').dataset.state === 'live'");
}

bool PageViewTest::IsShown(const std::string& id) {
  return browser_.Value("document.getElementById('" + id + "').checkVisibility()") == true;
}

}  // namespace paceline
