#include "tests/page/browser.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paceline {
namespace {

using nlohmann::json;

constexpr char kDriver[] = "/usr/bin/chromedriver";
constexpr absl::Duration kPatience = absl::Minutes(1);

constexpr int kStarts = 5;

constexpr char kAxe[] = "/npm/axe-core/axe.min.js";
constexpr char kRunAxe[] = R"(
const done = arguments[arguments.length - 1];
const rules = { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] };
axe.run(document, { runOnly: rules, resultTypes: ['violations'] }).then((result) => {
  done(result.violations.map((trouble) => `${trouble.id}: ${trouble.help}: `
    + trouble.nodes.map((node) => node.target.join(' ')).join(', ')).join('\n'));
}, (error) => done(`axe failed: ${error}`));
)";

// The path is short, because the browser makes a socket in it.
std::string MakeDirectory() {
  std::string path = "/tmp/pageXXXXXX";
  return mkdtemp(path.data());
}

// The port that chromedriver has chosen, read from its log; 0: not known yet.
int PortIn(const std::string& log) {
  const std::string reported = ReadFile(log);
  constexpr absl::string_view kHead = "started successfully on port ";
  const size_t at = reported.find(kHead.data());
  if (at == std::string::npos) return 0;
  int port = 0;
  const size_t begin = at + kHead.size();
  const size_t end = reported.find('.', begin);
  return end != std::string::npos && absl::SimpleAtoi(reported.substr(begin, end - begin), &port)
             ? port
             : 0;
}

}  // namespace

Browser::Browser() : directory_(MakeDirectory()) {
  std::string log;
  // chromedriver takes a free IPv6 port, and ends when the IPv4 port of that number is in use.
  const auto port_is_taken = [&] { return absl::StrContains(ReadFile(log), "not available"); };
  for (int start = 0; start < kStarts && (start == 0 || port_is_taken()); ++start) {
    log = absl::StrCat(directory_, "/chromedriver.", start, ".log");
    driver_ = std::make_unique<Process>(
        std::vector<std::string>{"/usr/bin/env", "HOME=" + directory_, "TMPDIR=" + directory_,
                                 kDriver, "--port=0"},
        log);
    EXPECT_TRUE(Eventually([&] { return PortIn(log) > 0 || port_is_taken(); }, kPatience))
        << kDriver << ": " << ReadFile(log);
  }
  EXPECT_GT(PortIn(log), 0) << ReadFile(log);
  address_ = absl::StrCat("http://127.0.0.1:", PortIn(log));
  const json options = {
      {"args",
       {"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--hide-scrollbars", "--force-device-scale-factor=1",
        "--user-data-dir=" + directory_ + "/profile"}}};
  session_ = "/session";
  const json made = Command(
      "", {{"capabilities",
            {{"alwaysMatch", {{"browserName", "chrome"}, {"goog:chromeOptions", options}}}}}});
  if (made.contains("sessionId")) session_ = "/session/" + made["sessionId"].get<std::string>();
  SetSize(1440, 1000);
}

Browser::~Browser() {
  httplib::Client client(address_);
  client.set_read_timeout(30);
  client.Delete(session_.c_str());  // Ends the browser.
  driver_->Signal(SIGTERM);
  driver_->Wait();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

json Browser::Command(const std::string& path, const json& body) {
  httplib::Client client(address_);
  client.set_read_timeout(120);
  const auto result = client.Post(session_ + path, body.dump(), "application/json");
  if (!result) {
    ADD_FAILURE() << "chromedriver does not answer " << path;
    return {};
  }
  json answer = json::parse(result->body, nullptr, /*allow_exceptions=*/false);
  if (result->status != 200) ADD_FAILURE() << path << ": " << result->body;
  return answer.is_object() && answer.contains("value") ? answer["value"] : json();
}

void Browser::Open(const std::string& url) { Command("/url", {{"url", url}}); }

json Browser::Value(const std::string& expression) {
  return Command("/execute/sync",
                 {{"script", "return (" + expression + ");"}, {"args", json::array()}});
}

void Browser::WaitUntil(const std::string& expression, const std::string& shown) {
  const auto holds = [&] { return Value(expression) == true; };
  EXPECT_TRUE(Eventually(holds, kPatience)) << expression << "\n" << Value(shown).dump();
}

std::string Browser::Text(const std::string& selector) {
  const json text = Value("document.querySelector(" + json(selector).dump() + ")?.textContent");
  return text.is_string() ? text.get<std::string>() : "";
}

void Browser::Click(const std::string& selector) {
  const json element = Command("/element", {{"using", "css selector"}, {"value", selector}});
  if (!element.is_object() || element.empty()) return;
  Command("/element/" + element.begin()->get<std::string>() + "/click", json::object());
}

void Browser::Press(const std::string& key) {
  const json strokes = {{{"type", "keyDown"}, {"value", key}}, {{"type", "keyUp"}, {"value", key}}};
  Command("/actions", {{"actions", {{{"type", "key"}, {"id", "keyboard"}, {"actions", strokes}}}}});
}

void Browser::SetSize(int width, int height) {
  Command("/goog/cdp/execute",
          {{"cmd", "Emulation.clearDeviceMetricsOverride"}, {"params", json::object()}});
  Command("/window/rect", {{"width", width}, {"height", height}});
}

void Browser::SetViewport(int width, int height) {
  Command("/goog/cdp/execute",
          {{"cmd", "Emulation.setDeviceMetricsOverride"},
           {"params",
            {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}}}});
}

std::string Browser::AccessibilityTroubles() {
  const std::string axe = ReadFile(absl::StrCat(std::getenv("TEST_SRCDIR"), kAxe));
  EXPECT_FALSE(axe.empty()) << kAxe;
  Command("/execute/sync", {{"script", axe}, {"args", json::array()}});
  const json troubles = Command("/execute/async", {{"script", kRunAxe}, {"args", json::array()}});
  return troubles.is_string() ? troubles.get<std::string>() : "axe did not run";
}

void Browser::SetDark(bool dark) {
  const json feature = {{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}};
  Command("/goog/cdp/execute", {{"cmd", "Emulation.setEmulatedMedia"},
                                {"params", {{"features", json::array({feature})}}}});
}

void Browser::Picture(const std::string& path) {
  const json size = Value("[innerWidth, document.documentElement.scrollHeight]");
  const json clip = {{"x", 0}, {"y", 0}, {"width", size[0]}, {"height", size[1]}, {"scale", 1}};
  const json taken =
      Command("/goog/cdp/execute", {{"cmd", "Page.captureScreenshot"},
                                    {"params", {{"captureBeyondViewport", true}, {"clip", clip}}}});
  std::string png;
  ASSERT_TRUE(absl::Base64Unescape(taken["data"].get<std::string>(), &png));
  std::ofstream(path, std::ios::binary) << png;
}

}  // namespace paceline
