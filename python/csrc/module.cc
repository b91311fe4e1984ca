#include "python/csrc/module.h"

#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/Exceptions.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "python/csrc/engine.h"
#include "python/csrc/python_attachments.h"
#include "python/csrc/python_interpreter.h"
#include "python/csrc/python_shadow.h"
#include "python/csrc/python_sharded_model.h"
#include "python/csrc/script_workload.h"
#include "python/csrc/switching_group.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/report/figures.h"

namespace paceline {
namespace {

// Its threads and connections live as long as the process.
Engine* StartEngine(Platform& platform, const std::string& directory, const std::string& socket,
                    const std::string& ring, double orphan_timeout_s) {
  Engine::Options options;
  options.directory = directory;
  options.socket = socket;
  options.ring = ring;
  options.orphan_timeout = absl::Seconds(orphan_timeout_s);
  return new Engine(options, platform);
}

void Load(Engine& engine, const ModuleTensors::Named& parameters,
          const ModuleTensors::Named& buffers, bool unused_parameters, py::object state,
          py::object shadow, py::object sharded, const std::vector<int>& mesh,
          const std::string& no_slipstream, const std::string& no_mean, int64_t samples,
          int64_t batch, bool shuffle, bool evaluates) {
  ScriptWorkload::Parts parts;
  parts.model = std::make_unique<ModuleTensors>(engine.device(), parameters, buffers);
  parts.attachments = std::make_unique<PythonAttachments>(std::move(state));
  if (!shadow.is_none()) parts.shadow = std::make_unique<PythonShadow>(std::move(shadow));
  if (!sharded.is_none()) {
    TORCH_CHECK_VALUE(engine.config().gradient_format == WireFormat::kFp32,
                      "gradient_format of the job's file does not go with a sharded model, whose "
                      "gradients have the reduce_dtype of fully_shard's MixedPrecisionPolicy; "
                      "leave it out");
    parts.sharded = std::make_unique<PythonShardedModel>(std::move(sharded));
    parts.mesh = mesh;
  }
  parts.interpreter = std::make_unique<PythonInterpreter>();
  parts.no_slipstream = no_slipstream;
  parts.no_mean = no_mean;
  parts.unused_parameters = unused_parameters;
  parts.sampling.samples = samples;
  parts.sampling.batch = batch;
  parts.sampling.shuffle = shuffle;
  parts.sampling.seed = engine.config().seed;
  parts.evaluates = evaluates;
  const py::gil_scoped_release no_gil;
  engine.Load(std::move(parts));
}

using Slots = std::vector<std::pair<std::string, std::vector<at::Tensor>>>;

void SetOptimizerSlots(Engine& engine, const Slots& named) {
  std::vector<OptimizerSlot> slots;
  for (const auto& [name, tensors] : named) slots.push_back({name, tensors});
  engine.workload().optimizer().SetSlots(std::move(slots));
}

// Name, value, and steps completed.
using Reported = std::vector<std::tuple<std::string, double, int64_t>>;

void Report(Engine& engine, const Reported& reported) {
  std::vector<ReportedNumber> numbers;
  for (const auto& [name, value, step] : reported) numbers.push_back({name, value, step});
  engine.Report(std::move(numbers));
}

Sampler MakeSampler(const Engine& engine, int64_t samples, int rank, int world_size, int64_t batch,
                    bool shuffle, int64_t epoch, int64_t offset) {
  return Sampler({samples, rank, world_size, batch, shuffle, engine.config().seed},
                 {epoch, offset});
}

const char* NameOf(StepOrder::Kind kind) {
  switch (kind) {
    case StepOrder::Kind::kStep:
      return "step";
    case StepOrder::Kind::kEvaluate:
      return "evaluate";
    default:
      return "done";
  }
}

// A switching group as Python has it. It ends without the GIL: the end of what it is connected to
// waits for threads, which may need the GIL to free tensors that Python has let go of.
class PythonSwitchingGroup : public SwitchingGroup {
 public:
  using SwitchingGroup::SwitchingGroup;
  ~PythonSwitchingGroup() override {
    if (PyGILState_Check() == 0) return;
    const py::gil_scoped_release no_gil;
    Sever();
  }
};

// A method that runs without the GIL; torch's exceptions arrive as in torch itself.
template <typename Function>
auto WithoutGil(Function function) {
  return torch::wrap_pybind_function_no_gil(std::move(function));
}

void BindEngine(py::module_& m, Platform& platform) {
  py::class_<StepOrder>(m, "Order")
      .def_property_readonly("kind", [](const StepOrder& order) { return NameOf(order.kind); })
      .def_readonly("number", &StepOrder::number)
      .def_readonly("updates", &StepOrder::updates)
      .def_readonly("scheduled", &StepOrder::scheduled)
      .def_property_readonly("generation",
                             [](const StepOrder& order) { return order.member.generation; })
      .def_property_readonly("rank", [](const StepOrder& order) { return order.member.rank; })
      .def_property_readonly("world_size",
                             [](const StepOrder& order) { return order.member.world_size; })
      .def_property_readonly("batch", [](const StepOrder& order) { return order.member.batch; })
      .def_property_readonly(
          "passes", [](const StepOrder& order) { return order.member.accumulation_steps; });

  py::class_<Engine, std::unique_ptr<Engine, py::nodelete>>(m, "Engine")
      .def_static(
          "start",
          [&platform](const std::string& directory, const std::string& socket,
                      const std::string& ring, double orphan_timeout_s) {
            return StartEngine(platform, directory, socket, ring, orphan_timeout_s);
          },
          py::return_value_policy::reference, py::call_guard<py::gil_scoped_release>(),
          py::kw_only(), py::arg("directory"), py::arg("socket"), py::arg("ring"),
          py::arg("orphan_timeout_s"))
      .def_property_readonly("spec", [](Engine& engine) { return engine.config().spec_json; })
      .def_property_readonly("device", [](Engine& engine) { return engine.device(); })
      .def_property_readonly("threads", [](Engine& engine) { return engine.config().threads; })
      .def_property_readonly("steps", [](Engine& engine) { return engine.config().steps; })
      .def_property_readonly("rank", [](Engine& engine) { return engine.config().rank(); })
      .def_property_readonly("world_size",
                             [](Engine& engine) { return engine.config().member.world_size; })
      .def_property_readonly("batch", [](Engine& engine) { return engine.config().member.batch; })
      .def_property_readonly("shards", [](Engine& engine) { return engine.config().member.shards; })
      .def_property_readonly("seed", [](Engine& engine) { return engine.config().seed; })
      .def_property_readonly("recovers",
                             [](Engine& engine) { return engine.config().recovery.enabled; })
      .def_property_readonly("may_slip", &Engine::may_slip)
      .def_property_readonly("clip_grad_norm",
                             [](Engine& engine) { return engine.config().clip_grad_norm; })
      .def_property_readonly("is_broken", &Engine::is_broken)
      .def_property_readonly("counts_flops", &Engine::counts_flops)
      .def("show_rehearsal",
           [](Engine& engine, uint32_t phase) { engine.ShowRehearsal(static_cast<Phase>(phase)); })
      .def("load", torch::wrap_pybind_function(&Load), py::kw_only(), py::arg("parameters"),
           py::arg("buffers"), py::arg("unused_parameters"), py::arg("state"), py::arg("shadow"),
           py::arg("sharded"), py::arg("mesh"), py::arg("no_slipstream"), py::arg("no_mean"),
           py::arg("samples"), py::arg("batch"), py::arg("shuffle"), py::arg("evaluates"))
      .def("switching_group",
           [](Engine& engine, int rank, int size) {  // Both live as long as the process.
             return c10::make_intrusive<PythonSwitchingGroup>(
                 rank, size, [&engine] { engine.CountCollective(); });
           })
      .def("set_optimizer_slots", &SetOptimizerSlots)
      .def("sampler", &MakeSampler, py::kw_only(), py::arg("samples"), py::arg("rank"),
           py::arg("world_size"), py::arg("batch"), py::arg("shuffle"), py::arg("epoch"),
           py::arg("offset"))
      .def("set_position",
           [](Engine& engine, int64_t epoch, int64_t offset) {
             engine.workload().SetPosition({epoch, offset});
           })
      .def_property_readonly("openings",
                             [](Engine& engine) { return engine.workload().openings(); })
      .def_property_readonly("position",
                             [](Engine& engine) {
                               const DataPosition position = engine.workload().position();
                               return std::make_pair(position.epoch, position.offset);
                             })
      .def("next", WithoutGil([](Engine& engine, double learning_rate) {
             return engine.Next(learning_rate);
           }))
      .def("begin_pass", WithoutGil([](Engine& engine) { engine.BeginPass(); }))
      .def("begin_forward", WithoutGil([](Engine& engine, int64_t samples, int64_t tokens) {
             engine.BeginForward(samples, tokens);
           }))
      .def("backward", WithoutGil([](Engine& engine, const at::Tensor& loss,
                                     const at::Tensor& shown) { engine.Backward(loss, shown); }))
      .def("take_mean", WithoutGil([](Engine& engine, const at::Tensor& gradients) {
             engine.TakeMean(gradients);
           }))
      .def("before_update", WithoutGil([](Engine& engine, std::optional<double> max_norm) {
             return engine.BeforeUpdate(max_norm);
           }))
      .def("updated", WithoutGil([](Engine& engine) { engine.Updated(); }))
      .def("end_step", WithoutGil([](Engine& engine) { engine.EndStep(); }))
      .def("set_flops",
           [](Engine& engine, double half, double matrices, double convolutions, double other) {
             engine.workload().model().SetCountedFlops({half, matrices, convolutions, other});
           })
      .def("process_group", WithoutGil([](Engine& engine) { return engine.TorchGroup(); }))
      .def("save", WithoutGil([](Engine& engine) { engine.Save(); }))
      .def("report", &Report)
      .def("artifact",
           WithoutGil([](Engine& engine, const std::string& name, const std::string& path,
                         bool directory, int64_t bytes, const std::string& sha256, int64_t step,
                         int64_t time_us, const std::string& error) {
             engine.ReportArtifact({name, path, directory, bytes, sha256, step, time_us, error});
           }))
      .def("give_up_profile",
           WithoutGil([](Engine& engine, const std::string& why) { engine.GiveUpProfile(why); }))
      .def("show_progress", WithoutGil([](Engine& engine, int64_t done, int64_t all) {
             engine.ShowProgress(done, all);
           }))
      .def("end_evaluation", WithoutGil([](Engine& engine, double loss, double correct,
                                           double predictions, int64_t samples) {
             engine.EndEvaluation({loss, correct, predictions}, samples);
           }))
      .def("cut_off", WithoutGil([](Engine& engine, const std::string& what, bool collective) {
             return engine.CutOff(what, collective);
           }))
      .def("fail", WithoutGil([](Engine& engine, const std::string& what) { engine.Fail(what); }))
      .def("finish", WithoutGil([](Engine& engine) { return engine.Finish(); }));
}

void BindSampler(py::module_& m) {
  py::class_<Sampler>(m, "Sampler")
      .def("next",
           [](Sampler& sampler) {
             std::vector<int64_t> indices;
             sampler.Next(&indices);
             return indices;
           })
      .def_property_readonly("position", [](const Sampler& sampler) {
        return std::make_pair(sampler.position().epoch, sampler.position().offset);
      });
}

void BindSwitchingGroup(py::module_& m) {
  py::module_::import("torch.distributed");  // Binds the base class.
  // torch compares groups by identity: their very class has to be bound, not only its base.
  using Group = PythonSwitchingGroup;
  py::class_<Group, c10::intrusive_ptr<Group>, c10d::ProcessGroup>(m, "SwitchingGroup")
      .def(py::init([](int rank, int size) { return c10::make_intrusive<Group>(rank, size); }),
           py::arg("rank"), py::arg("size"))
      .def("connect",
           WithoutGil([](Group& group, const c10::intrusive_ptr<c10d::ProcessGroup>& inner) {
             group.Connect(inner);
           }))
      .def("sever", WithoutGil([](Group& group) { group.Sever(); }))
      .def("move", WithoutGil([](Group& group, int rank) { group.Move(rank); }))
      .def_property_readonly("is_connected", &Group::is_connected)
      // These two hide what torch would answer by a backend of the group's own.
      .def_property_readonly("_device_types", &Group::Devices)
      .def("_get_backend",
           WithoutGil([](Group& group, const c10::Device& /*device*/) { group.RefuseBackend(); }));
}

// Classes of python/paceline/errors.py.
PyObject* regroup = nullptr;
PyObject* training_error = nullptr;

void RegisterErrors() {
  const py::module_ errors = py::module_::import("paceline.errors");
  regroup = errors.attr("Regroup").cast<py::object>().release().ptr();
  training_error = errors.attr("TrainingError").cast<py::object>().release().ptr();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Regroup& error) {
      PyErr_SetString(regroup, error.what());
    } catch (const TrainingError& error) {
      PyErr_SetString(training_error, error.what());
    }
  });
}

}  // namespace

void DefineModule(py::module_& m, Platform& platform) {
  RegisterErrors();
  BindSampler(m);
  BindSwitchingGroup(m);
  BindEngine(m, platform);
}

}  // namespace paceline
