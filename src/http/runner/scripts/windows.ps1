# Makes this machine a runner: unpacks the runner unless the image has it, fetches its credentials,
# starts it as a service, and tells how far it is. Safe to run again: what is done is not done twice.
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
if ($env:https_proxy) { [Net.WebRequest]::DefaultWebProxy = New-Object Net.WebProxy($env:https_proxy) }

$headers = @{ Authorization = "Bearer $env:BEARER_TOKEN" }
$runnerHome = if ($env:RUNNER_HOME) { $env:RUNNER_HOME } else { 'C:\actions-runner' }
# An image may bring the runner along: as a folder named after its version, as `latest`, or packed.
$cache = if ($env:RUNNER_CACHE) { $env:RUNNER_CACHE } else { 'C:\cache\actions-runner' }

function Invoke-Patiently([scriptblock]$Call) {
    for ($try = 1; ; $try++) {
        try { return & $Call }
        catch {
            $code = 0
            if ($_.Exception.Response) { $code = [int]$_.Exception.Response.StatusCode }
            if ($try -ge 6 -or ($code -ge 400 -and $code -lt 500)) { throw }
            Start-Sleep -Seconds 5
        }
    }
}

function Send-Json([string]$Path, [hashtable]$Body) {
    $text = $Body | ConvertTo-Json -Compress
    Invoke-Patiently { Invoke-RestMethod -Method Post -Headers $headers -ContentType 'application/json' -Body $text -Uri "$env:CALLBACK_URL/$Path" } | Out-Null
}

function Send-Step([string]$Message) {
    Write-Output $Message
    try { Send-Json 'status' @{ status = 'installing'; message = $Message } } catch { Write-Output "not heard: $_" }
}

function Get-File([string]$Path, [string]$Target) {
    Invoke-Patiently { Invoke-WebRequest -UseBasicParsing -Headers $headers -Uri "$env:METADATA_URL/$Path" -OutFile $Target }
}

try {
    Send-Step "setting up $env:RUNNER_NAME"
    if ($env:CA_BUNDLE) {
        $ca = Join-Path $env:TEMP 'ostler-ca.crt'
        [IO.File]::WriteAllBytes($ca, [Convert]::FromBase64String($env:CA_BUNDLE))
        Import-Certificate -FilePath $ca -CertStoreLocation Cert:\LocalMachine\Root | Out-Null
    }

    if (Test-Path (Join-Path $runnerHome 'run.cmd')) {
        Send-Step "the image has a runner in $runnerHome"
    } else {
        # Laid out beside its place and moved there whole: a reboot leaves nothing half done.
        $draft = "$runnerHome.new"
        if (Test-Path $draft) { Remove-Item -Recurse -Force $draft }
        New-Item -ItemType Directory -Path $draft | Out-Null
        $byVersion = Join-Path $cache $env:RUNNER_VERSION
        $latest = Join-Path $cache 'latest'
        $packed = Join-Path $cache $env:RUNNER_FILE
        if (Test-Path (Join-Path $byVersion 'run.cmd')) {
            Send-Step "taking runner $env:RUNNER_VERSION from the image's cache"
            Copy-Item -Recurse -Force (Join-Path $byVersion '*') $draft
        } elseif (Test-Path (Join-Path $latest 'run.cmd')) {
            Send-Step "taking the latest runner of the image's cache"
            Copy-Item -Recurse -Force (Join-Path $latest '*') $draft
        } else {
            if (-not (Test-Path $packed)) {
                Send-Step "downloading $env:RUNNER_URL"
                $packed = Join-Path $env:TEMP $env:RUNNER_FILE
                Invoke-Patiently { Invoke-WebRequest -UseBasicParsing -Uri $env:RUNNER_URL -OutFile $packed }
            }
            Add-Type -AssemblyName System.IO.Compression.FileSystem
            [IO.Compression.ZipFile]::ExtractToDirectory($packed, $draft)
        }
        if (Test-Path $runnerHome) { Remove-Item -Recurse -Force $runnerHome }
        Move-Item $draft $runnerHome
    }

    Send-Step 'fetching credentials'
    foreach ($file in 'runner', 'credentials', 'credentials_rsaparams') {
        $target = Join-Path $runnerHome ".$file"
        Get-File "credentials/$file" $target
        # Only the system and administrators read it.
        & icacls.exe $target /inheritance:r /grant '*S-1-5-18:F' '*S-1-5-32-544:F' '*S-1-5-20:R' | Out-Null
    }
    [IO.File]::WriteAllBytes((Join-Path $runnerHome '.env'), [Convert]::FromBase64String($env:RUNNER_ENV))

    Send-Step 'starting the runner'
    $service = (Invoke-Patiently { Invoke-RestMethod -Headers $headers -Uri "$env:METADATA_URL/system/service-name" }).Trim()
    if (-not (Get-Service -Name $service -ErrorAction SilentlyContinue)) {
        [IO.File]::WriteAllText((Join-Path $runnerHome '.service'), $service)
        New-Service -Name $service -BinaryPathName (Join-Path $runnerHome 'bin\RunnerService.exe') -DisplayName $service -StartupType Automatic | Out-Null
    }
    # The listener finds its variables in the service's own environment, whether we made it or not.
    New-ItemProperty -Path "HKLM:\SYSTEM\CurrentControlSet\Services\$service" -Name Environment -PropertyType MultiString -Value ($env:AGENT_ENV -split ' ') -Force | Out-Null
    Start-Service $service

    $os = Get-CimInstance Win32_OperatingSystem
    try { Send-Json 'system-info' @{ os_name = $os.Caption; os_version = $os.Version } } catch { Write-Output "not heard: $_" }
    # The forge may have seen the runner first; then this is not waited for any more.
    try { Send-Json 'status' @{ status = 'idle'; message = 'the runner was started' } } catch { Write-Output "not heard: $_" }
} catch {
    $why = "$_"
    try { Send-Json 'status' @{ status = 'failed'; message = $why } } catch { Write-Output "not heard: $_" }
    Write-Error $why -ErrorAction Continue
    exit 1
}
